// The functions of llama.h v0.5.0 as a program declares them, by the tier in which this library has them. The library
// test reads the names here.
#pragma once

#include "tessera/llama/layouts/v0_5.h"

/// Parameters of training, which nothing reads.
struct llama_opt_params {
  void* members[8];
};

extern "C" {

// ---- Tier 1. These must work.

llama_model_params llama_model_default_params();
llama_context_params llama_context_default_params();
llama_sampler_chain_params llama_sampler_chain_default_params();
void llama_backend_init();
void llama_backend_free();
void llama_numa_init(int32_t numa);
llama_model* llama_model_init_from_user(gguf_context* metadata, void* set_tensor_data, void* set_tensor_data_ud,
                                        llama_model_params params);
llama_model* llama_load_model_from_file(const char* path_model, llama_model_params params);
llama_model* llama_model_load_from_file(const char* path_model, llama_model_params params);
void llama_free_model(llama_model* model);
void llama_model_free(llama_model* model);
llama_context* llama_init_from_model(llama_model* model, llama_context_params params);
llama_context* llama_new_context_with_model(llama_model* model, llama_context_params params);
void llama_free(llama_context* ctx);
int64_t llama_time_us();
size_t llama_max_parallel_sequences();
bool llama_supports_mmap();
bool llama_supports_mlock();
bool llama_supports_gpu_offload();
uint32_t llama_n_ctx(const llama_context* ctx);
uint32_t llama_n_batch(const llama_context* ctx);
int32_t llama_n_ctx_train(const llama_model* model);
int32_t llama_n_embd(const llama_model* model);
int32_t llama_n_layer(const llama_model* model);
int32_t llama_n_head(const llama_model* model);
int32_t llama_n_vocab(const llama_vocab* vocab);
const llama_model* llama_get_model(const llama_context* ctx);
llama_memory_t llama_get_memory(const llama_context* ctx);
int32_t llama_pooling_type(const llama_context* ctx);
const llama_vocab* llama_model_get_vocab(const llama_model* model);
int32_t llama_model_n_ctx_train(const llama_model* model);
int32_t llama_model_n_embd(const llama_model* model);
int32_t llama_model_n_embd_out(const llama_model* model);
float llama_model_rope_freq_scale_train(const llama_model* model);
uint32_t llama_model_n_cls_out(const llama_model* model);
int32_t llama_vocab_type(const llama_vocab* vocab);
int32_t llama_vocab_n_tokens(const llama_vocab* vocab);
int32_t llama_model_meta_val_str(const llama_model* model, const char* key, char* buf, size_t buf_size);
int32_t llama_model_meta_count(const llama_model* model);
int32_t llama_model_meta_key_by_index(const llama_model* model, int32_t i, char* buf, size_t buf_size);
int32_t llama_model_meta_val_str_by_index(const llama_model* model, int32_t i, char* buf, size_t buf_size);
int32_t llama_model_desc(const llama_model* model, char* buf, size_t buf_size);
uint64_t llama_model_size(const llama_model* model);
const char* llama_model_chat_template(const llama_model* model, const char* name);
uint64_t llama_model_n_params(const llama_model* model);
bool llama_model_has_encoder(const llama_model* model);
llama_token llama_model_decoder_start_token(const llama_model* model);
bool llama_model_is_recurrent(const llama_model* model);
bool llama_model_is_hybrid(const llama_model* model);
llama_adapter_lora* llama_adapter_lora_init(llama_model* model, const char* path_lora);
void llama_adapter_lora_free(llama_adapter_lora* adapter);
int32_t llama_set_adapters_lora(llama_context* ctx, llama_adapter_lora** adapters, size_t n_adapters, float* scales);
void llama_memory_clear(llama_memory_t mem, bool data);
bool llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1);
void llama_memory_seq_cp(llama_memory_t mem, llama_seq_id seq_id_src, llama_seq_id seq_id_dst, llama_pos p0,
                         llama_pos p1);
void llama_memory_seq_keep(llama_memory_t mem, llama_seq_id seq_id);
void llama_memory_seq_add(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1, llama_pos delta);
void llama_memory_seq_div(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1, int32_t d);
llama_pos llama_memory_seq_pos_min(llama_memory_t mem, llama_seq_id seq_id);
llama_pos llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id);
size_t llama_state_get_size(llama_context* ctx);
size_t llama_state_get_data(llama_context* ctx, uint8_t* dst, size_t size);
size_t llama_state_set_data(llama_context* ctx, const uint8_t* src, size_t size);
bool llama_state_load_file(llama_context* ctx, const char* path_session, llama_token* tokens_out,
                           size_t n_token_capacity, size_t* n_token_count_out);
bool llama_state_save_file(llama_context* ctx, const char* path_session, const llama_token* tokens,
                           size_t n_token_count);
size_t llama_state_seq_save_file(llama_context* ctx, const char* filepath, llama_seq_id seq_id,
                                 const llama_token* tokens, size_t n_token_count);
size_t llama_state_seq_load_file(llama_context* ctx, const char* filepath, llama_seq_id dest_seq_id,
                                 llama_token* tokens_out, size_t n_token_capacity, size_t* n_token_count_out);
llama_batch llama_batch_get_one(llama_token* tokens, int32_t n_tokens);
llama_batch llama_batch_init(int32_t n_tokens, int32_t embd, int32_t n_seq_max);
void llama_batch_free(llama_batch batch);
int32_t llama_encode(llama_context* ctx, llama_batch batch);
int32_t llama_decode(llama_context* ctx, llama_batch batch);
void llama_set_n_threads(llama_context* ctx, int32_t n_threads, int32_t n_threads_batch);
int32_t llama_n_threads(llama_context* ctx);
void llama_set_warmup(llama_context* ctx, bool warmup);
void llama_synchronize(llama_context* ctx);
float* llama_get_logits(llama_context* ctx);
float* llama_get_logits_ith(llama_context* ctx, int32_t i);
float* llama_get_embeddings(llama_context* ctx);
float* llama_get_embeddings_ith(llama_context* ctx, int32_t i);
float* llama_get_embeddings_seq(llama_context* ctx, llama_seq_id seq_id);
float* llama_get_sampled_probs_ith(llama_context* ctx, int32_t i);
float* llama_get_sampled_logits_ith(llama_context* ctx, int32_t i);
llama_token* llama_get_sampled_candidates_ith(llama_context* ctx, int32_t i);
const char* llama_vocab_get_text(const llama_vocab* vocab, llama_token token);
float llama_vocab_get_score(const llama_vocab* vocab, llama_token token);
int32_t llama_vocab_get_attr(const llama_vocab* vocab, llama_token token);
bool llama_vocab_is_eog(const llama_vocab* vocab, llama_token token);
llama_token llama_vocab_bos(const llama_vocab* vocab);
llama_token llama_vocab_eos(const llama_vocab* vocab);
llama_token llama_vocab_eot(const llama_vocab* vocab);
llama_token llama_vocab_sep(const llama_vocab* vocab);
llama_token llama_vocab_nl(const llama_vocab* vocab);
bool llama_vocab_get_add_bos(const llama_vocab* vocab);
bool llama_vocab_get_add_eos(const llama_vocab* vocab);
llama_token llama_vocab_fim_pre(const llama_vocab* vocab);
llama_token llama_vocab_fim_suf(const llama_vocab* vocab);
llama_token llama_vocab_fim_mid(const llama_vocab* vocab);
const char* llama_token_get_text(const llama_vocab* vocab, llama_token token);
float llama_token_get_score(const llama_vocab* vocab, llama_token token);
int32_t llama_token_get_attr(const llama_vocab* vocab, llama_token token);
bool llama_token_is_eog(const llama_vocab* vocab, llama_token token);
bool llama_token_is_control(const llama_vocab* vocab, llama_token token);
llama_token llama_token_bos(const llama_vocab* vocab);
llama_token llama_token_eos(const llama_vocab* vocab);
llama_token llama_token_eot(const llama_vocab* vocab);
llama_token llama_token_cls(const llama_vocab* vocab);
llama_token llama_token_sep(const llama_vocab* vocab);
llama_token llama_token_nl(const llama_vocab* vocab);
llama_token llama_token_pad(const llama_vocab* vocab);
bool llama_add_bos_token(const llama_vocab* vocab);
bool llama_add_eos_token(const llama_vocab* vocab);
llama_token llama_token_fim_pre(const llama_vocab* vocab);
llama_token llama_token_fim_suf(const llama_vocab* vocab);
llama_token llama_token_fim_mid(const llama_vocab* vocab);
llama_token llama_token_fim_pad(const llama_vocab* vocab);
llama_token llama_token_fim_rep(const llama_vocab* vocab);
llama_token llama_token_fim_sep(const llama_vocab* vocab);
llama_token llama_vocab_cls(const llama_vocab* vocab);
int32_t llama_tokenize(const llama_vocab* vocab, const char* text, int32_t text_len, llama_token* tokens,
                       int32_t n_tokens_max, bool add_special, bool parse_special);
int32_t llama_token_to_piece(const llama_vocab* vocab, llama_token token, char* buf, int32_t length, int32_t lstrip,
                             bool special);
int32_t llama_detokenize(const llama_vocab* vocab, const llama_token* tokens, int32_t n_tokens, char* text,
                         int32_t text_len_max, bool remove_special, bool unparse_special);
int32_t llama_chat_apply_template(const char* tmpl, const llama_chat_message* chat, size_t n_msg, bool add_ass,
                                  char* buf, int32_t length);
void llama_sampler_accept(llama_sampler* smpl, llama_token token);
void llama_sampler_apply(llama_sampler* smpl, llama_token_data_array* cur_p);
void llama_sampler_reset(llama_sampler* smpl);
llama_sampler* llama_sampler_clone(const llama_sampler* smpl);
void llama_sampler_free(llama_sampler* smpl);
llama_sampler* llama_sampler_chain_init(llama_sampler_chain_params params);
void llama_sampler_chain_add(llama_sampler* chain, llama_sampler* smpl);
int32_t llama_sampler_chain_n(const llama_sampler* chain);
llama_sampler* llama_sampler_chain_remove(llama_sampler* chain, int32_t i);
llama_sampler* llama_sampler_init_greedy();
llama_sampler* llama_sampler_init_dist(uint32_t seed);
llama_sampler* llama_sampler_init_top_k(int32_t k);
llama_sampler* llama_sampler_init_top_p(float p, size_t min_keep);
llama_sampler* llama_sampler_init_min_p(float p, size_t min_keep);
llama_sampler* llama_sampler_init_typical(float p, size_t min_keep);
llama_sampler* llama_sampler_init_temp(float t);
llama_sampler* llama_sampler_init_temp_ext(float t, float delta, float exponent);
llama_sampler* llama_sampler_init_xtc(float p, float t, size_t min_keep, uint32_t seed);
llama_sampler* llama_sampler_init_top_n_sigma(float n);
llama_sampler* llama_sampler_init_mirostat(int32_t n_vocab, uint32_t seed, float tau, float eta, int32_t m);
llama_sampler* llama_sampler_init_mirostat_v2(uint32_t seed, float tau, float eta);
llama_sampler* llama_sampler_init_grammar(const llama_vocab* vocab, const char* grammar_str, const char* grammar_root);
llama_sampler* llama_sampler_init_grammar_lazy(const llama_vocab* vocab, const char* grammar_str,
                                               const char* grammar_root, const char** trigger_words,
                                               size_t num_trigger_words, const llama_token* trigger_tokens,
                                               size_t num_trigger_tokens);
llama_sampler* llama_sampler_init_grammar_lazy_patterns(const llama_vocab* vocab, const char* grammar_str,
                                                        const char* grammar_root, const char** trigger_patterns,
                                                        size_t num_trigger_patterns, const llama_token* trigger_tokens,
                                                        size_t num_trigger_tokens);
llama_sampler* llama_sampler_init_penalties(int32_t n_vocab, int32_t penalty_last_n, float penalty_repeat,
                                            float penalty_freq, float penalty_present);
llama_sampler* llama_sampler_init_dry(const llama_vocab* vocab, float dry_multiplier, float dry_base,
                                      int32_t dry_allowed_length, int32_t dry_penalty_last_n, const char** seq_breakers,
                                      size_t num_breakers);
llama_sampler* llama_sampler_init_logit_bias(int32_t n_vocab, int32_t n_logit_bias, const llama_logit_bias* logit_bias);
llama_sampler* llama_sampler_init_infill(const llama_vocab* vocab);
uint32_t llama_sampler_get_seed(const llama_sampler* smpl);
llama_token llama_sampler_sample(llama_sampler* smpl, llama_context* ctx, int32_t idx);
const char* llama_print_system_info();
void llama_log_set(ggml_log_callback log_callback, void* user_data);
void llama_perf_context_print(const llama_context* ctx);
void llama_perf_context_reset(llama_context* ctx);
void llama_perf_sampler_print(const llama_sampler* chain);

// ---- Tier 2. These should work.

const char* llama_ftype_name(int32_t ftype);
const char* llama_flash_attn_type_name(int32_t flash_attn_type);
const char* llama_load_mode_name(int32_t load_mode);
int32_t llama_load_mode_from_str(const char* str);
const char* llama_version();
llama_model_quantize_params llama_model_quantize_default_params();
llama_model* llama_model_load_from_splits(const char** paths, size_t n_paths, llama_model_params params);
void llama_model_save_to_file(const llama_model* model, const char* path_model);
size_t llama_max_devices();
size_t llama_max_tensor_buft_overrides();
bool llama_supports_rpc();
uint32_t llama_n_ctx_seq(const llama_context* ctx);
uint32_t llama_n_ubatch(const llama_context* ctx);
uint32_t llama_n_seq_max(const llama_context* ctx);
uint32_t llama_n_rs_seq(const llama_context* ctx);
int32_t llama_model_rope_type(const llama_model* model);
int32_t llama_model_n_embd_inp(const llama_model* model);
int32_t llama_model_n_layer(const llama_model* model);
int32_t llama_model_n_layer_nextn(const llama_model* model);
int32_t llama_model_n_head(const llama_model* model);
int32_t llama_model_n_head_kv(const llama_model* model);
int32_t llama_model_n_swa(const llama_model* model);
const char* llama_model_cls_label(const llama_model* model, uint32_t i);
const char* llama_model_meta_key_str(int32_t key);
int32_t llama_model_ftype(const llama_model* model);
bool llama_model_has_decoder(const llama_model* model);
bool llama_model_is_diffusion(const llama_model* model);
uint32_t llama_model_quantize(const char* fname_inp, const char* fname_out, const llama_model_quantize_params* params);
int32_t llama_adapter_meta_val_str(const llama_adapter_lora* adapter, const char* key, char* buf, size_t buf_size);
int32_t llama_adapter_meta_count(const llama_adapter_lora* adapter);
int32_t llama_adapter_meta_key_by_index(const llama_adapter_lora* adapter, int32_t i, char* buf, size_t buf_size);
int32_t llama_adapter_meta_val_str_by_index(const llama_adapter_lora* adapter, int32_t i, char* buf, size_t buf_size);
uint64_t llama_adapter_get_alora_n_invocation_tokens(const llama_adapter_lora* adapter);
const llama_token* llama_adapter_get_alora_invocation_tokens(const llama_adapter_lora* adapter);
int32_t llama_set_adapter_cvec(llama_context* ctx, const float* data, size_t len, int32_t n_embd, int32_t il_start,
                               int32_t il_end);
bool llama_memory_can_shift(llama_memory_t mem);
size_t llama_get_state_size(llama_context* ctx);
size_t llama_copy_state_data(llama_context* ctx, uint8_t* dst);
size_t llama_set_state_data(llama_context* ctx, const uint8_t* src);
bool llama_load_session_file(llama_context* ctx, const char* path_session, llama_token* tokens_out,
                             size_t n_token_capacity, size_t* n_token_count_out);
bool llama_save_session_file(llama_context* ctx, const char* path_session, const llama_token* tokens,
                             size_t n_token_count);
size_t llama_state_seq_get_size(llama_context* ctx, llama_seq_id seq_id);
size_t llama_state_seq_get_data(llama_context* ctx, uint8_t* dst, size_t size, llama_seq_id seq_id);
size_t llama_state_seq_set_data(llama_context* ctx, const uint8_t* src, size_t size, llama_seq_id dest_seq_id);
size_t llama_state_seq_get_size_ext(llama_context* ctx, llama_seq_id seq_id, uint32_t flags);
size_t llama_state_seq_get_data_ext(llama_context* ctx, uint8_t* dst, size_t size, llama_seq_id seq_id, uint32_t flags);
size_t llama_state_seq_set_data_ext(llama_context* ctx, const uint8_t* src, size_t size, llama_seq_id dest_seq_id,
                                    uint32_t flags);
int32_t llama_n_threads_batch(llama_context* ctx);
void llama_set_embeddings(llama_context* ctx, bool embeddings);
void llama_set_causal_attn(llama_context* ctx, bool causal_attn);
void llama_set_abort_callback(llama_context* ctx, ggml_abort_callback abort_callback, void* abort_callback_data);
llama_token llama_get_sampled_token_ith(llama_context* ctx, int32_t i);
uint32_t llama_get_sampled_probs_count_ith(llama_context* ctx, int32_t i);
uint32_t llama_get_sampled_logits_count_ith(llama_context* ctx, int32_t i);
uint32_t llama_get_sampled_candidates_count_ith(llama_context* ctx, int32_t i);
bool llama_vocab_is_control(const llama_vocab* vocab, llama_token token);
llama_token llama_vocab_pad(const llama_vocab* vocab);
llama_token llama_vocab_mask(const llama_vocab* vocab);
bool llama_vocab_get_add_sep(const llama_vocab* vocab);
const llama_token* llama_vocab_get_suppress_tokens(const llama_vocab* vocab, int32_t* n_suppress_tokens);
llama_token llama_vocab_fim_pad(const llama_vocab* vocab);
llama_token llama_vocab_fim_rep(const llama_vocab* vocab);
llama_token llama_vocab_fim_sep(const llama_vocab* vocab);
int32_t llama_chat_builtin_templates(const char** output, size_t len);
llama_sampler* llama_sampler_init(llama_sampler_i* iface, void* ctx);
const char* llama_sampler_name(const llama_sampler* smpl);
void llama_sampler_copy(const llama_sampler* src, llama_sampler* dst);
llama_sampler* llama_sampler_chain_get(llama_sampler* chain, int32_t i);
llama_sampler* llama_sampler_init_adaptive_p(float target, float decay, uint32_t seed);
int32_t llama_split_path(char* split_path, size_t maxlen, const char* path_prefix, int32_t split_no,
                         int32_t split_count);
int32_t llama_split_prefix(char* split_prefix, size_t maxlen, const char* split_path, int32_t split_no,
                           int32_t split_count);
void llama_log_get(ggml_log_callback* log_callback, void** user_data);
llama_perf_context_data llama_perf_context(const llama_context* ctx);
llama_perf_sampler_data llama_perf_sampler(const llama_sampler* chain);
void llama_perf_sampler_reset(llama_sampler* chain);

// ---- Tier 3. These are refused.

void llama_attach_threadpool(llama_context* ctx, void* threadpool, void* threadpool_batch);
void llama_detach_threadpool(llama_context* ctx);
llama_model* llama_model_load_from_file_ptr(void* file, llama_model_params params);
llama_adapter_lora* llama_adapter_lora_init_from_file_ptr(llama_model* model, void* file);
bool llama_set_sampler(llama_context* ctx, llama_seq_id seq_id, llama_sampler* smpl);
bool llama_opt_param_filter_all(const ggml_tensor* tensor, void* userdata);
void llama_opt_init(llama_context* lctx, llama_model* model, llama_opt_params params);
void llama_opt_epoch(llama_context* lctx, void* dataset, void* result_train, void* result_eval, int64_t idata_split,
                     void* callback_train, void* callback_eval);

}  // extern "C"
