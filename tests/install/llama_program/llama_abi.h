/* The types of llama.h v0.5.0 on x86-64, written from the documented offsets. Enumerations are plain numbers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct llama_model llama_model;
typedef struct llama_context llama_context;
typedef struct llama_vocab llama_vocab;
typedef struct llama_adapter_lora llama_adapter_lora;
typedef struct llama_memory_i* llama_memory_t;
typedef struct gguf_context gguf_context;
typedef struct ggml_tensor ggml_tensor;
typedef int32_t llama_token;
typedef int32_t llama_pos;
typedef int32_t llama_seq_id;

typedef bool (*llama_progress_callback)(float progress, void* user);
typedef bool (*ggml_abort_callback)(void* user);
typedef void (*ggml_log_callback)(int32_t level, const char* text, void* user);

typedef struct {
  int32_t n_tokens;
  llama_token* token;
  float* embd;
  llama_pos* pos;
  int32_t* n_seq_id;
  llama_seq_id** seq_id;
  int8_t* logits;
} llama_batch;

typedef struct {
  llama_token id;
  float logit;
  float p;
} llama_token_data;

typedef struct {
  llama_token_data* data;
  size_t size;
  int64_t selected;
  bool sorted;
} llama_token_data_array;

typedef struct {
  llama_token token;
  float bias;
} llama_logit_bias;

typedef struct {
  const char* role;
  const char* content;
} llama_chat_message;

typedef struct {
  bool no_perf;
} llama_sampler_chain_params;

typedef struct {
  double t_start_ms, t_load_ms, t_p_eval_ms, t_eval_ms;
  int32_t n_p_eval, n_eval, n_reused;
} llama_perf_context_data;

typedef struct {
  double t_sample_ms;
  int32_t n_sample;
} llama_perf_sampler_data;

typedef struct llama_sampler llama_sampler;

typedef struct {
  const char* (*name)(const llama_sampler* sampler);
  void (*accept)(llama_sampler* sampler, llama_token token);
  void (*apply)(llama_sampler* sampler, llama_token_data_array* candidates);
  void (*reset)(llama_sampler* sampler);
  llama_sampler* (*clone)(const llama_sampler* sampler);
  void (*free)(llama_sampler* sampler);
  void (*experimental[6])(void);
} llama_sampler_i;

struct llama_sampler {
  llama_sampler_i* iface;
  void* ctx;
};

typedef struct {
  void** devices;
  const void* tensor_buft_overrides;
  int32_t n_gpu_layers, split_mode, load_mode, lazy_mode, main_gpu;
  const float* tensor_split;
  llama_progress_callback progress_callback;
  void* progress_callback_user_data;
  const void* kv_overrides;
  bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp;
} llama_model_params;

typedef struct {
  uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
  int32_t n_threads, n_threads_batch;
  int32_t ctx_type, rope_scaling_type, pooling_type, attention_type, flash_attn_type;
  float rope_freq_base, rope_freq_scale, yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  uint32_t yarn_orig_ctx;
  float defrag_thold;
  void* cb_eval;
  void* cb_eval_user_data;
  int32_t type_k, type_v;
  ggml_abort_callback abort_callback;
  void* abort_callback_data;
  bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
  void* samplers;
  size_t n_samplers;
  llama_context* ctx_other;
} llama_context_params;

typedef struct {
  int32_t nthread, ftype, output_tensor_type, token_embedding_type;
  bool allow_requantize, quantize_output_tensor, only_copy, pure, keep_split, dry_run;
  const void* imatrix;
  const void* kv_overrides;
  const void* tt_overrides;
  const void* prune_layers;
  size_t max_buf_size;
} llama_model_quantize_params;

/* Parameters of training, of which this program gives none. */
typedef struct {
  void* members[8];
} llama_opt_params;
