// The functions of llama.h, as libtessera.so exports them for the libraries of layouts/: tessera_NAME for each NAME
// whose arguments are the same in every layout, and tessera_llama_layout_* for those whose structs differ. Their
// contracts are those of llama.h; docs/libllama.md lists the differences. cmake/libllama.cmake reads the names here.
#pragma once

#include "tessera/llama/abi.h"
#include "tessera/llama/params.h"

#define TESSERA_LLAMA_API extern "C" __attribute__((visibility("default")))

// ---- The library

TESSERA_LLAMA_API const char* tessera_llama_ftype_name(int32_t ftype);
TESSERA_LLAMA_API const char* tessera_llama_flash_attn_type_name(int32_t flash_attn_type);
TESSERA_LLAMA_API const char* tessera_llama_load_mode_name(int32_t load_mode);
TESSERA_LLAMA_API int32_t tessera_llama_load_mode_from_str(const char* str);
TESSERA_LLAMA_API const char* tessera_llama_version();
TESSERA_LLAMA_API void tessera_llama_backend_init();
TESSERA_LLAMA_API void tessera_llama_backend_free();
TESSERA_LLAMA_API void tessera_llama_numa_init(int32_t numa);
TESSERA_LLAMA_API int64_t tessera_llama_time_us();
TESSERA_LLAMA_API size_t tessera_llama_max_devices();
TESSERA_LLAMA_API size_t tessera_llama_max_parallel_sequences();
TESSERA_LLAMA_API size_t tessera_llama_max_tensor_buft_overrides();
TESSERA_LLAMA_API bool tessera_llama_supports_mmap();
TESSERA_LLAMA_API bool tessera_llama_supports_mlock();
TESSERA_LLAMA_API bool tessera_llama_supports_gpu_offload();
TESSERA_LLAMA_API bool tessera_llama_supports_rpc();
TESSERA_LLAMA_API const char* tessera_llama_model_meta_key_str(int32_t key);
TESSERA_LLAMA_API int32_t tessera_llama_split_path(char* split_path, size_t maxlen, const char* path_prefix,
                                                   int32_t split_no, int32_t split_count);
TESSERA_LLAMA_API int32_t tessera_llama_split_prefix(char* split_prefix, size_t maxlen, const char* split_path,
                                                     int32_t split_no, int32_t split_count);
TESSERA_LLAMA_API const char* tessera_llama_print_system_info();
TESSERA_LLAMA_API void tessera_llama_log_get(ggml_log_callback* log_callback, void** user_data);
TESSERA_LLAMA_API void tessera_llama_log_set(ggml_log_callback log_callback, void* user_data);

// ---- Models

TESSERA_LLAMA_API void tessera_llama_model_save_to_file(const llama_model* model, const char* path_model);
TESSERA_LLAMA_API void tessera_llama_model_free(llama_model* model);
TESSERA_LLAMA_API const llama_vocab* tessera_llama_model_get_vocab(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_rope_type(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_ctx_train(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_embd(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_embd_inp(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_embd_out(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_layer(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_layer_nextn(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_head(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_head_kv(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_n_swa(const llama_model* model);
TESSERA_LLAMA_API float tessera_llama_model_rope_freq_scale_train(const llama_model* model);
TESSERA_LLAMA_API uint32_t tessera_llama_model_n_cls_out(const llama_model* model);
TESSERA_LLAMA_API const char* tessera_llama_model_cls_label(const llama_model* model, uint32_t i);
TESSERA_LLAMA_API int32_t tessera_llama_model_meta_val_str(const llama_model* model, const char* key, char* buf,
                                                           size_t buf_size);
TESSERA_LLAMA_API int32_t tessera_llama_model_meta_count(const llama_model* model);
TESSERA_LLAMA_API int32_t tessera_llama_model_meta_key_by_index(const llama_model* model, int32_t i, char* buf,
                                                                size_t buf_size);
TESSERA_LLAMA_API int32_t tessera_llama_model_meta_val_str_by_index(const llama_model* model, int32_t i, char* buf,
                                                                    size_t buf_size);
TESSERA_LLAMA_API int32_t tessera_llama_model_desc(const llama_model* model, char* buf, size_t buf_size);
TESSERA_LLAMA_API int32_t tessera_llama_model_ftype(const llama_model* model);
TESSERA_LLAMA_API uint64_t tessera_llama_model_size(const llama_model* model);
TESSERA_LLAMA_API const char* tessera_llama_model_chat_template(const llama_model* model, const char* name);
TESSERA_LLAMA_API uint64_t tessera_llama_model_n_params(const llama_model* model);
TESSERA_LLAMA_API bool tessera_llama_model_has_encoder(const llama_model* model);
TESSERA_LLAMA_API bool tessera_llama_model_has_decoder(const llama_model* model);
TESSERA_LLAMA_API llama_token tessera_llama_model_decoder_start_token(const llama_model* model);
TESSERA_LLAMA_API bool tessera_llama_model_is_recurrent(const llama_model* model);
TESSERA_LLAMA_API bool tessera_llama_model_is_hybrid(const llama_model* model);
TESSERA_LLAMA_API bool tessera_llama_model_is_diffusion(const llama_model* model);

// ---- Vocabularies

TESSERA_LLAMA_API int32_t tessera_llama_vocab_type(const llama_vocab* vocab);
TESSERA_LLAMA_API int32_t tessera_llama_vocab_n_tokens(const llama_vocab* vocab);
TESSERA_LLAMA_API const char* tessera_llama_vocab_get_text(const llama_vocab* vocab, llama_token token);
TESSERA_LLAMA_API float tessera_llama_vocab_get_score(const llama_vocab* vocab, llama_token token);
TESSERA_LLAMA_API int32_t tessera_llama_vocab_get_attr(const llama_vocab* vocab, llama_token token);
TESSERA_LLAMA_API bool tessera_llama_vocab_is_eog(const llama_vocab* vocab, llama_token token);
TESSERA_LLAMA_API bool tessera_llama_vocab_is_control(const llama_vocab* vocab, llama_token token);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_bos(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_eos(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_eot(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_sep(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_nl(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_pad(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_mask(const llama_vocab* vocab);
TESSERA_LLAMA_API bool tessera_llama_vocab_get_add_bos(const llama_vocab* vocab);
TESSERA_LLAMA_API bool tessera_llama_vocab_get_add_eos(const llama_vocab* vocab);
TESSERA_LLAMA_API bool tessera_llama_vocab_get_add_sep(const llama_vocab* vocab);
TESSERA_LLAMA_API const llama_token* tessera_llama_vocab_get_suppress_tokens(const llama_vocab* vocab,
                                                                             int32_t* n_suppress_tokens);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_fim_pre(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_fim_suf(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_fim_mid(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_fim_pad(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_fim_rep(const llama_vocab* vocab);
TESSERA_LLAMA_API llama_token tessera_llama_vocab_fim_sep(const llama_vocab* vocab);
TESSERA_LLAMA_API int32_t tessera_llama_tokenize(const llama_vocab* vocab, const char* text, int32_t text_len,
                                                 llama_token* tokens, int32_t n_tokens_max, bool add_special,
                                                 bool parse_special);
TESSERA_LLAMA_API int32_t tessera_llama_token_to_piece(const llama_vocab* vocab, llama_token token, char* buf,
                                                       int32_t length, int32_t lstrip, bool special);
TESSERA_LLAMA_API int32_t tessera_llama_detokenize(const llama_vocab* vocab, const llama_token* tokens,
                                                   int32_t n_tokens, char* text, int32_t text_len_max,
                                                   bool remove_special, bool unparse_special);

// ---- Chat templates

TESSERA_LLAMA_API int32_t tessera_llama_chat_apply_template(const char* tmpl, const llama_chat_message* chat,
                                                            size_t n_msg, bool add_ass, char* buf, int32_t length);
TESSERA_LLAMA_API int32_t tessera_llama_chat_builtin_templates(const char** output, size_t len);

// ---- Adapters

TESSERA_LLAMA_API llama_adapter_lora* tessera_llama_adapter_lora_init(llama_model* model, const char* path_lora);
TESSERA_LLAMA_API int32_t tessera_llama_adapter_meta_val_str(const llama_adapter_lora* adapter, const char* key,
                                                             char* buf, size_t buf_size);
TESSERA_LLAMA_API int32_t tessera_llama_adapter_meta_count(const llama_adapter_lora* adapter);
TESSERA_LLAMA_API int32_t tessera_llama_adapter_meta_key_by_index(const llama_adapter_lora* adapter, int32_t i,
                                                                  char* buf, size_t buf_size);
TESSERA_LLAMA_API int32_t tessera_llama_adapter_meta_val_str_by_index(const llama_adapter_lora* adapter, int32_t i,
                                                                      char* buf, size_t buf_size);
TESSERA_LLAMA_API void tessera_llama_adapter_lora_free(llama_adapter_lora* adapter);
TESSERA_LLAMA_API uint64_t tessera_llama_adapter_get_alora_n_invocation_tokens(const llama_adapter_lora* adapter);
TESSERA_LLAMA_API const llama_token* tessera_llama_adapter_get_alora_invocation_tokens(
    const llama_adapter_lora* adapter);
TESSERA_LLAMA_API int32_t tessera_llama_set_adapters_lora(llama_context* ctx, llama_adapter_lora** adapters,
                                                          size_t n_adapters, float* scales);
TESSERA_LLAMA_API int32_t tessera_llama_set_adapter_cvec(llama_context* ctx, const float* data, size_t len,
                                                         int32_t n_embd, int32_t il_start, int32_t il_end);

// ---- Contexts

TESSERA_LLAMA_API void tessera_llama_free(llama_context* ctx);
TESSERA_LLAMA_API uint32_t tessera_llama_n_ctx(const llama_context* ctx);
TESSERA_LLAMA_API uint32_t tessera_llama_n_ctx_seq(const llama_context* ctx);
TESSERA_LLAMA_API uint32_t tessera_llama_n_batch(const llama_context* ctx);
TESSERA_LLAMA_API uint32_t tessera_llama_n_ubatch(const llama_context* ctx);
TESSERA_LLAMA_API uint32_t tessera_llama_n_seq_max(const llama_context* ctx);
TESSERA_LLAMA_API uint32_t tessera_llama_n_rs_seq(const llama_context* ctx);
TESSERA_LLAMA_API const llama_model* tessera_llama_get_model(const llama_context* ctx);
TESSERA_LLAMA_API llama_memory_t tessera_llama_get_memory(const llama_context* ctx);
TESSERA_LLAMA_API int32_t tessera_llama_pooling_type(const llama_context* ctx);
TESSERA_LLAMA_API llama_batch tessera_llama_batch_get_one(llama_token* tokens, int32_t n_tokens);
TESSERA_LLAMA_API llama_batch tessera_llama_batch_init(int32_t n_tokens, int32_t embd, int32_t n_seq_max);
TESSERA_LLAMA_API void tessera_llama_batch_free(llama_batch batch);
TESSERA_LLAMA_API int32_t tessera_llama_encode(llama_context* ctx, llama_batch batch);
TESSERA_LLAMA_API int32_t tessera_llama_decode(llama_context* ctx, llama_batch batch);
TESSERA_LLAMA_API void tessera_llama_set_n_threads(llama_context* ctx, int32_t n_threads, int32_t n_threads_batch);
TESSERA_LLAMA_API int32_t tessera_llama_n_threads(llama_context* ctx);
TESSERA_LLAMA_API int32_t tessera_llama_n_threads_batch(llama_context* ctx);
TESSERA_LLAMA_API void tessera_llama_set_embeddings(llama_context* ctx, bool embeddings);
TESSERA_LLAMA_API void tessera_llama_set_causal_attn(llama_context* ctx, bool causal_attn);
TESSERA_LLAMA_API void tessera_llama_set_warmup(llama_context* ctx, bool warmup);
TESSERA_LLAMA_API void tessera_llama_set_abort_callback(llama_context* ctx, ggml_abort_callback abort_callback,
                                                        void* abort_callback_data);
TESSERA_LLAMA_API void tessera_llama_synchronize(llama_context* ctx);
TESSERA_LLAMA_API float* tessera_llama_get_logits(llama_context* ctx);
TESSERA_LLAMA_API float* tessera_llama_get_logits_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API float* tessera_llama_get_embeddings(llama_context* ctx);
TESSERA_LLAMA_API float* tessera_llama_get_embeddings_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API float* tessera_llama_get_embeddings_seq(llama_context* ctx, llama_seq_id seq_id);
TESSERA_LLAMA_API llama_token tessera_llama_get_sampled_token_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API float* tessera_llama_get_sampled_probs_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API uint32_t tessera_llama_get_sampled_probs_count_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API float* tessera_llama_get_sampled_logits_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API uint32_t tessera_llama_get_sampled_logits_count_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API llama_token* tessera_llama_get_sampled_candidates_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API uint32_t tessera_llama_get_sampled_candidates_count_ith(llama_context* ctx, int32_t i);
TESSERA_LLAMA_API llama_perf_context_data tessera_llama_perf_context(const llama_context* ctx);
TESSERA_LLAMA_API void tessera_llama_perf_context_print(const llama_context* ctx);
TESSERA_LLAMA_API void tessera_llama_perf_context_reset(llama_context* ctx);

// ---- Memory of sequences

TESSERA_LLAMA_API void tessera_llama_memory_clear(llama_memory_t mem, bool data);
TESSERA_LLAMA_API bool tessera_llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1);
TESSERA_LLAMA_API void tessera_llama_memory_seq_cp(llama_memory_t mem, llama_seq_id seq_id_src, llama_seq_id seq_id_dst,
                                                   llama_pos p0, llama_pos p1);
TESSERA_LLAMA_API void tessera_llama_memory_seq_keep(llama_memory_t mem, llama_seq_id seq_id);
TESSERA_LLAMA_API void tessera_llama_memory_seq_add(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1,
                                                    llama_pos delta);
TESSERA_LLAMA_API void tessera_llama_memory_seq_div(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1,
                                                    int32_t d);
TESSERA_LLAMA_API llama_pos tessera_llama_memory_seq_pos_min(llama_memory_t mem, llama_seq_id seq_id);
TESSERA_LLAMA_API llama_pos tessera_llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id);
TESSERA_LLAMA_API bool tessera_llama_memory_can_shift(llama_memory_t mem);

// ---- States

TESSERA_LLAMA_API size_t tessera_llama_state_get_size(llama_context* ctx);
TESSERA_LLAMA_API size_t tessera_llama_state_get_data(llama_context* ctx, uint8_t* dst, size_t size);
TESSERA_LLAMA_API size_t tessera_llama_copy_state_data(llama_context* ctx, uint8_t* dst);
TESSERA_LLAMA_API size_t tessera_llama_state_set_data(llama_context* ctx, const uint8_t* src, size_t size);
TESSERA_LLAMA_API size_t tessera_llama_set_state_data(llama_context* ctx, const uint8_t* src);
TESSERA_LLAMA_API bool tessera_llama_state_load_file(llama_context* ctx, const char* path_session,
                                                     llama_token* tokens_out, size_t n_token_capacity,
                                                     size_t* n_token_count_out);
TESSERA_LLAMA_API bool tessera_llama_state_save_file(llama_context* ctx, const char* path_session,
                                                     const llama_token* tokens, size_t n_token_count);
TESSERA_LLAMA_API size_t tessera_llama_state_seq_get_size(llama_context* ctx, llama_seq_id seq_id);
TESSERA_LLAMA_API size_t tessera_llama_state_seq_get_data(llama_context* ctx, uint8_t* dst, size_t size,
                                                          llama_seq_id seq_id);
TESSERA_LLAMA_API size_t tessera_llama_state_seq_set_data(llama_context* ctx, const uint8_t* src, size_t size,
                                                          llama_seq_id dest_seq_id);
TESSERA_LLAMA_API size_t tessera_llama_state_seq_save_file(llama_context* ctx, const char* filepath,
                                                           llama_seq_id seq_id, const llama_token* tokens,
                                                           size_t n_token_count);
TESSERA_LLAMA_API size_t tessera_llama_state_seq_load_file(llama_context* ctx, const char* filepath,
                                                           llama_seq_id dest_seq_id, llama_token* tokens_out,
                                                           size_t n_token_capacity, size_t* n_token_count_out);
TESSERA_LLAMA_API size_t tessera_llama_state_seq_get_size_ext(llama_context* ctx, llama_seq_id seq_id, uint32_t flags);
TESSERA_LLAMA_API size_t tessera_llama_state_seq_get_data_ext(llama_context* ctx, uint8_t* dst, size_t size,
                                                              llama_seq_id seq_id, uint32_t flags);
TESSERA_LLAMA_API size_t tessera_llama_state_seq_set_data_ext(llama_context* ctx, const uint8_t* src, size_t size,
                                                              llama_seq_id dest_seq_id, uint32_t flags);

// ---- Samplers

TESSERA_LLAMA_API llama_sampler_chain_params tessera_llama_sampler_chain_default_params();
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init(llama_sampler_i* iface, void* ctx);
TESSERA_LLAMA_API const char* tessera_llama_sampler_name(const llama_sampler* smpl);
TESSERA_LLAMA_API void tessera_llama_sampler_accept(llama_sampler* smpl, llama_token token);
TESSERA_LLAMA_API void tessera_llama_sampler_apply(llama_sampler* smpl, llama_token_data_array* cur_p);
TESSERA_LLAMA_API void tessera_llama_sampler_reset(llama_sampler* smpl);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_clone(const llama_sampler* smpl);
TESSERA_LLAMA_API void tessera_llama_sampler_copy(const llama_sampler* src, llama_sampler* dst);
TESSERA_LLAMA_API void tessera_llama_sampler_free(llama_sampler* smpl);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_chain_init(llama_sampler_chain_params params);
TESSERA_LLAMA_API void tessera_llama_sampler_chain_add(llama_sampler* chain, llama_sampler* smpl);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_chain_get(llama_sampler* chain, int32_t i);
TESSERA_LLAMA_API int32_t tessera_llama_sampler_chain_n(const llama_sampler* chain);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_chain_remove(llama_sampler* chain, int32_t i);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_greedy();
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_dist(uint32_t seed);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_top_k(int32_t k);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_top_p(float p, size_t min_keep);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_min_p(float p, size_t min_keep);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_typical(float p, size_t min_keep);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_temp(float t);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_temp_ext(float t, float delta, float exponent);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_xtc(float p, float t, size_t min_keep, uint32_t seed);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_top_n_sigma(float n);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_mirostat(int32_t n_vocab, uint32_t seed, float tau,
                                                                     float eta, int32_t m);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_mirostat_v2(uint32_t seed, float tau, float eta);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_grammar(const llama_vocab* vocab, const char* grammar_str,
                                                                    const char* grammar_root);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_grammar_lazy(
    const llama_vocab* vocab, const char* grammar_str, const char* grammar_root, const char** trigger_words,
    size_t num_trigger_words, const llama_token* trigger_tokens, size_t num_trigger_tokens);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_grammar_lazy_patterns(
    const llama_vocab* vocab, const char* grammar_str, const char* grammar_root, const char** trigger_patterns,
    size_t num_trigger_patterns, const llama_token* trigger_tokens, size_t num_trigger_tokens);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_penalties(int32_t n_vocab, int32_t penalty_last_n,
                                                                      float penalty_repeat, float penalty_freq,
                                                                      float penalty_present);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_dry(const llama_vocab* vocab, float dry_multiplier,
                                                                float dry_base, int32_t dry_allowed_length,
                                                                int32_t dry_penalty_last_n, const char** seq_breakers,
                                                                size_t num_breakers);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_adaptive_p(float target, float decay, uint32_t seed);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_logit_bias(int32_t n_vocab, int32_t n_logit_bias,
                                                                       const llama_logit_bias* logit_bias);
TESSERA_LLAMA_API llama_sampler* tessera_llama_sampler_init_infill(const llama_vocab* vocab);
TESSERA_LLAMA_API uint32_t tessera_llama_sampler_get_seed(const llama_sampler* smpl);
TESSERA_LLAMA_API llama_token tessera_llama_sampler_sample(llama_sampler* smpl, llama_context* ctx, int32_t idx);
TESSERA_LLAMA_API llama_perf_sampler_data tessera_llama_perf_sampler(const llama_sampler* chain);
TESSERA_LLAMA_API void tessera_llama_perf_sampler_print(const llama_sampler* chain);
TESSERA_LLAMA_API void tessera_llama_perf_sampler_reset(llama_sampler* chain);

// ---- Refused

TESSERA_LLAMA_API void tessera_llama_attach_threadpool(llama_context* ctx, void* threadpool, void* threadpool_batch);
TESSERA_LLAMA_API void tessera_llama_detach_threadpool(llama_context* ctx);
TESSERA_LLAMA_API llama_adapter_lora* tessera_llama_adapter_lora_init_from_file_ptr(llama_model* model, void* file);
TESSERA_LLAMA_API bool tessera_llama_set_sampler(llama_context* ctx, llama_seq_id seq_id, llama_sampler* smpl);
TESSERA_LLAMA_API bool tessera_llama_opt_param_filter_all(const ggml_tensor* tensor, void* userdata);
TESSERA_LLAMA_API void tessera_llama_opt_init();
TESSERA_LLAMA_API void tessera_llama_opt_epoch();

// ---- For layouts

TESSERA_LLAMA_API llama_model* tessera_llama_layout_load(const char* path, const tessera::llama::ModelParams* params);
TESSERA_LLAMA_API llama_model* tessera_llama_layout_load_splits(const char** paths, size_t n_paths,
                                                                const tessera::llama::ModelParams* params);
TESSERA_LLAMA_API llama_context* tessera_llama_layout_create(llama_model* model,
                                                             const tessera::llama::ContextParams* params);
TESSERA_LLAMA_API uint32_t tessera_llama_layout_quantize(const char* from, const char* to,
                                                         const tessera::llama::QuantizeParams* params);
/// Logs that a function is not built; as information only if programs have another way then.
TESSERA_LLAMA_API void tessera_llama_layout_refuse(const char* function, bool is_expected);

// ---- For C++ functions of a layout

namespace tessera::llama {
inline constexpr int32_t kArchitectureIsRecurrent = 1, kArchitectureIsHybrid = 2;
inline constexpr int32_t kGrammarIsComplete = 1, kGrammarGoesOn = 2;  // bits
}  // namespace tessera::llama

TESSERA_LLAMA_API int32_t tessera_llama_layout_n_architectures();
/// "(unknown)" for numbers that are none.
TESSERA_LLAMA_API const char* tessera_llama_layout_architecture(int32_t i);
/// The number of architectures if there is none of this name.
TESSERA_LLAMA_API int32_t tessera_llama_layout_find_architecture(const char* name);
/// One of the constants above; 0: attention only.
TESSERA_LLAMA_API int32_t tessera_llama_layout_architecture_kind(int32_t i);
/// A grammar and a text of it that grows; null after an error. The vocabulary may be null.
TESSERA_LLAMA_API void* tessera_llama_layout_grammar_create(const llama_vocab* vocab, const char* source,
                                                            const char* root);
TESSERA_LLAMA_API void tessera_llama_layout_grammar_free(void* grammar);
TESSERA_LLAMA_API void tessera_llama_layout_grammar_accept(void* grammar, uint32_t code_point);
/// Bits; none after a code point that does not fit.
TESSERA_LLAMA_API int32_t tessera_llama_layout_grammar_state(const void* grammar);
/// Writes at most n_bytes code points and returns their number. Bytes that are no UTF-8 become U+FFFD.
TESSERA_LLAMA_API size_t tessera_llama_layout_code_points(const char* text, size_t n_bytes, uint32_t* to);
TESSERA_LLAMA_API size_t tessera_llama_layout_model_bytes(const llama_model* model);
TESSERA_LLAMA_API void tessera_llama_layout_context_bytes(const llama_context* ctx, size_t* model, size_t* context,
                                                          size_t* compute);
