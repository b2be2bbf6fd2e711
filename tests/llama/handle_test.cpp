// Calls of llama.h with NULL, and with memory that is no handle: they fail and say so.
#include "tests/llama/llama_support.h"

namespace tessera {
namespace {

using namespace testing;

class LlamaHandles : public ::testing::Test {
 protected:
  // Expects a result, and a line of the log that begins with the name of the function.
  template <class T, class Function>
  void fails(const std::string& name, T failed, Function&& call) {
    EXPECT_EQ(call(), failed) << name;
    EXPECT_TRUE(log_.take().starts_with(name + ": ")) << name;
    EXPECT_EQ(log_.last_level(), 4) << name;
  }
  template <class Function>
  void fails(const std::string& name, Function&& call) {
    fails(name, 0, [&] { return call(), 0; });
  }

  LogLines log_;
};

// Each function with its name as text.
#define FAILS(failed, function, ...) fails(#function, failed, [&] { return function(__VA_ARGS__); })
#define FAILS_SILENTLY(function, ...) fails(#function, [&] { function(__VA_ARGS__); })

TEST_F(LlamaHandles, ModelsAreRefused) {
  char buffer[8];
  for (void* const handle : {static_cast<void*>(nullptr), not_a_handle()}) {
    auto* const model = static_cast<llama_model*>(handle);
    FAILS(nullptr, llama_model_get_vocab, model);
    FAILS(-1, llama_model_rope_type, model);
    FAILS(0, llama_model_n_ctx_train, model);
    FAILS(0, llama_model_n_embd, model);
    FAILS(0, llama_model_n_embd_inp, model);
    FAILS(0, llama_model_n_embd_out, model);
    FAILS(0, llama_model_n_layer, model);
    FAILS(0, llama_model_n_layer_nextn, model);
    FAILS(0, llama_model_n_head, model);
    FAILS(0, llama_model_n_head_kv, model);
    FAILS(0, llama_model_n_swa, model);
    FAILS(0.0f, llama_model_rope_freq_scale_train, model);
    FAILS(0u, llama_model_n_cls_out, model);
    FAILS(nullptr, llama_model_cls_label, model, 0);
    FAILS(-1, llama_model_meta_val_str, model, "x", buffer, sizeof buffer);
    FAILS(-1, llama_model_meta_count, model);
    FAILS(-1, llama_model_meta_key_by_index, model, 0, buffer, sizeof buffer);
    FAILS(-1, llama_model_meta_val_str_by_index, model, 0, buffer, sizeof buffer);
    FAILS(-1, llama_model_desc, model, buffer, sizeof buffer);
    FAILS(0, llama_model_ftype, model);
    FAILS(0u, llama_model_size, model);
    FAILS(nullptr, llama_model_chat_template, model, nullptr);
    FAILS(0u, llama_model_n_params, model);
    FAILS(false, llama_model_has_encoder, model);
    FAILS(false, llama_model_has_decoder, model);
    FAILS(-1, llama_model_decoder_start_token, model);
    FAILS(false, llama_model_is_recurrent, model);
    FAILS(false, llama_model_is_hybrid, model);
    FAILS(false, llama_model_is_diffusion, model);
    FAILS_SILENTLY(llama_model_save_to_file, model, "x");
    FAILS(nullptr, llama_adapter_lora_init, model, "x");
    FAILS(nullptr, llama_init_from_model, model, small_context());
  }
  llama_model_free(nullptr);
  llama_free_model(nullptr);
  EXPECT_EQ(log_.take(), "");
  FAILS_SILENTLY(llama_model_free, static_cast<llama_model*>(not_a_handle()));
}

TEST_F(LlamaHandles, VocabulariesAreRefused) {
  llama_token tokens[4] = {};
  char text[4];
  for (void* const handle : {static_cast<void*>(nullptr), not_a_handle()}) {
    auto* const vocab = static_cast<const llama_vocab*>(handle);
    FAILS(0, llama_vocab_type, vocab);
    FAILS(0, llama_vocab_n_tokens, vocab);
    FAILS(nullptr, llama_vocab_get_text, vocab, 0);
    FAILS(0.0f, llama_vocab_get_score, vocab, 0);
    FAILS(0, llama_vocab_get_attr, vocab, 0);
    FAILS(false, llama_vocab_is_eog, vocab, 0);
    FAILS(false, llama_vocab_is_control, vocab, 0);
    FAILS(-1, llama_vocab_bos, vocab);
    FAILS(-1, llama_vocab_eos, vocab);
    FAILS(-1, llama_vocab_eot, vocab);
    FAILS(-1, llama_vocab_sep, vocab);
    FAILS(-1, llama_vocab_nl, vocab);
    FAILS(-1, llama_vocab_pad, vocab);
    FAILS(-1, llama_vocab_mask, vocab);
    FAILS(-1, llama_vocab_fim_pre, vocab);
    FAILS(-1, llama_vocab_fim_suf, vocab);
    FAILS(-1, llama_vocab_fim_mid, vocab);
    FAILS(-1, llama_vocab_fim_pad, vocab);
    FAILS(-1, llama_vocab_fim_rep, vocab);
    FAILS(-1, llama_vocab_fim_sep, vocab);
    FAILS(false, llama_vocab_get_add_bos, vocab);
    FAILS(false, llama_vocab_get_add_eos, vocab);
    FAILS(false, llama_vocab_get_add_sep, vocab);
    FAILS(nullptr, llama_vocab_get_suppress_tokens, vocab, nullptr);
    FAILS(INT32_MIN, llama_tokenize, vocab, "x", 1, tokens, 4, false, false);
    FAILS(0, llama_token_to_piece, vocab, 0, text, 4, 0, false);
    FAILS(0, llama_detokenize, vocab, tokens, 1, text, 4, false, false);
    FAILS(nullptr, llama_sampler_init_infill, vocab);
  }
}

TEST_F(LlamaHandles, ContextsAreRefused) {
  uint8_t bytes[8] = {};
  llama_token token = 0;
  size_t n = 0;
  for (void* const handle : {static_cast<void*>(nullptr), not_a_handle()}) {
    auto* const context = static_cast<llama_context*>(handle);
    FAILS(0u, llama_n_ctx, context);
    FAILS(0u, llama_n_ctx_seq, context);
    FAILS(0u, llama_n_batch, context);
    FAILS(0u, llama_n_ubatch, context);
    FAILS(0u, llama_n_seq_max, context);
    FAILS(0u, llama_n_rs_seq, context);
    FAILS(nullptr, llama_get_model, context);
    FAILS(nullptr, llama_get_memory, context);
    FAILS(-1, llama_pooling_type, context);
    FAILS(-1, llama_decode, context, llama_batch_get_one(&token, 1));
    FAILS(-1, llama_encode, context, llama_batch_get_one(&token, 1));
    FAILS_SILENTLY(llama_set_n_threads, context, 1, 1);
    FAILS(0, llama_n_threads, context);
    FAILS(0, llama_n_threads_batch, context);
    FAILS_SILENTLY(llama_set_embeddings, context, true);
    FAILS_SILENTLY(llama_set_causal_attn, context, true);
    FAILS_SILENTLY(llama_set_warmup, context, true);
    FAILS_SILENTLY(llama_set_abort_callback, context, nullptr, nullptr);
    FAILS_SILENTLY(llama_synchronize, context);
    FAILS(nullptr, llama_get_logits, context);
    FAILS(nullptr, llama_get_logits_ith, context, 0);
    FAILS(nullptr, llama_get_embeddings, context);
    FAILS(nullptr, llama_get_embeddings_ith, context, 0);
    FAILS(nullptr, llama_get_embeddings_seq, context, 0);
    FAILS(-1, llama_get_sampled_token_ith, context, 0);
    FAILS(nullptr, llama_get_sampled_probs_ith, context, 0);
    FAILS(0u, llama_get_sampled_probs_count_ith, context, 0);
    FAILS(nullptr, llama_get_sampled_logits_ith, context, 0);
    FAILS(0u, llama_get_sampled_logits_count_ith, context, 0);
    FAILS(nullptr, llama_get_sampled_candidates_ith, context, 0);
    FAILS(0u, llama_get_sampled_candidates_count_ith, context, 0);
    FAILS(0u, llama_state_get_size, context);
    FAILS(0u, llama_state_get_data, context, bytes, 8);
    FAILS(0u, llama_copy_state_data, context, bytes);
    FAILS(0u, llama_state_set_data, context, bytes, 8);
    FAILS(0u, llama_set_state_data, context, nullptr);
    FAILS(false, llama_state_load_file, context, "x", &token, 1, &n);
    FAILS(false, llama_state_save_file, context, "x", &token, 1);
    FAILS(0u, llama_state_seq_get_size, context, 0);
    FAILS(0u, llama_state_seq_get_size_ext, context, 0, 0);
    FAILS(0u, llama_state_seq_get_data, context, bytes, 8, 0);
    FAILS(0u, llama_state_seq_get_data_ext, context, bytes, 8, 0, 0);
    FAILS(0u, llama_state_seq_set_data, context, bytes, 8, 0);
    FAILS(0u, llama_state_seq_set_data_ext, context, bytes, 8, 0, 0);
    FAILS(0u, llama_state_seq_save_file, context, "x", 0, &token, 1);
    FAILS(0u, llama_state_seq_load_file, context, "x", 0, &token, 1, &n);
    FAILS(-1, llama_set_adapters_lora, context, nullptr, 0, nullptr);
    FAILS(-1, llama_set_adapter_cvec, context, nullptr, 0, 0, 0, 0);
    FAILS(-1, llama_sampler_sample, nullptr, context, 0);
    FAILS_SILENTLY(llama_perf_context, context);
    FAILS_SILENTLY(llama_perf_context_print, context);
    FAILS_SILENTLY(llama_perf_context_reset, context);
  }
  llama_free(nullptr);
  EXPECT_EQ(log_.take(), "");
  FAILS_SILENTLY(llama_free, static_cast<llama_context*>(not_a_handle()));
}

// Models without memory have NULL for it, for which the functions do nothing.
TEST_F(LlamaHandles, MemoriesAreRefused) {
  llama_memory_clear(nullptr, true);
  EXPECT_TRUE(llama_memory_seq_rm(nullptr, 0, 0, -1));
  llama_memory_seq_cp(nullptr, 0, 1, 0, -1);
  llama_memory_seq_keep(nullptr, 0);
  llama_memory_seq_add(nullptr, 0, 0, -1, 1);
  llama_memory_seq_div(nullptr, 0, 0, -1, 2);
  EXPECT_EQ(llama_memory_seq_pos_min(nullptr, 0), -1);
  EXPECT_EQ(llama_memory_seq_pos_max(nullptr, 0), -1);
  EXPECT_FALSE(llama_memory_can_shift(nullptr));
  EXPECT_EQ(log_.take(), "");
  auto* const memory = static_cast<llama_memory_t>(not_a_handle());
  FAILS_SILENTLY(llama_memory_clear, memory, true);
  FAILS(false, llama_memory_seq_rm, memory, 0, 0, -1);
  FAILS_SILENTLY(llama_memory_seq_cp, memory, 0, 1, 0, -1);
  FAILS_SILENTLY(llama_memory_seq_keep, memory, 0);
  FAILS_SILENTLY(llama_memory_seq_add, memory, 0, 0, -1, 1);
  FAILS_SILENTLY(llama_memory_seq_div, memory, 0, 0, -1, 2);
  FAILS(-1, llama_memory_seq_pos_min, memory, 0);
  FAILS(-1, llama_memory_seq_pos_max, memory, 0);
  FAILS(false, llama_memory_can_shift, memory);
}

TEST_F(LlamaHandles, AdaptersAndSamplersAreRefused) {
  char buffer[8];
  for (void* const handle : {static_cast<void*>(nullptr), not_a_handle()}) {
    auto* const adapter = static_cast<llama_adapter_lora*>(handle);
    FAILS(-1, llama_adapter_meta_val_str, adapter, "x", buffer, sizeof buffer);
    FAILS(-1, llama_adapter_meta_count, adapter);
    FAILS(-1, llama_adapter_meta_key_by_index, adapter, 0, buffer, sizeof buffer);
    FAILS(-1, llama_adapter_meta_val_str_by_index, adapter, 0, buffer, sizeof buffer);
    FAILS(0u, llama_adapter_get_alora_n_invocation_tokens, adapter);
    FAILS(nullptr, llama_adapter_get_alora_invocation_tokens, adapter);
  }
  llama_adapter_lora_free(nullptr);
  llama_sampler_free(nullptr);
  EXPECT_EQ(log_.take(), "");
  FAILS_SILENTLY(llama_adapter_lora_free, static_cast<llama_adapter_lora*>(not_a_handle()));
  llama_sampler* const sampler = nullptr;
  FAILS(std::string("(null)"), llama_sampler_name, sampler);
  FAILS_SILENTLY(llama_sampler_accept, sampler, 0);
  FAILS_SILENTLY(llama_sampler_apply, sampler, nullptr);
  FAILS_SILENTLY(llama_sampler_reset, sampler);
  FAILS(nullptr, llama_sampler_clone, sampler);
  FAILS_SILENTLY(llama_sampler_copy, sampler, sampler);
  FAILS_SILENTLY(llama_sampler_chain_add, sampler, sampler);
  FAILS(nullptr, llama_sampler_chain_get, sampler, 0);
  FAILS(0, llama_sampler_chain_n, sampler);
  FAILS(nullptr, llama_sampler_chain_remove, sampler, 0);
  FAILS_SILENTLY(llama_perf_sampler, sampler);
  FAILS_SILENTLY(llama_perf_sampler_print, sampler);
  FAILS_SILENTLY(llama_perf_sampler_reset, sampler);
}

}  // namespace
}  // namespace tessera
