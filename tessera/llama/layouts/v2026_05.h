// The structs of llama.h from 2026-05-16 to 2026-06-07 that differ between its versions.
#pragma once

#include "tessera/llama/abi.h"

extern "C" {

struct llama_model_params {
  void** devices;
  const void* tensor_buft_overrides;
  int32_t n_gpu_layers;
  int32_t split_mode;
  int32_t main_gpu;
  const float* tensor_split;
  llama_progress_callback progress_callback;
  void* progress_callback_user_data;
  const llama_model_kv_override* kv_overrides;
  bool vocab_only;
  bool use_mmap;
  bool use_direct_io;
  bool use_mlock;
  bool check_tensors;
  bool use_extra_bufts;
  bool no_host;
  bool no_alloc;
};

struct llama_context_params {
  uint32_t n_ctx;
  uint32_t n_batch;
  uint32_t n_ubatch;
  uint32_t n_seq_max;
  uint32_t n_rs_seq;
  int32_t n_threads;
  int32_t n_threads_batch;
  int32_t ctx_type;
  int32_t rope_scaling_type;
  int32_t pooling_type;
  int32_t attention_type;
  int32_t flash_attn_type;
  float rope_freq_base;
  float rope_freq_scale;
  float yarn_ext_factor;
  float yarn_attn_factor;
  float yarn_beta_fast;
  float yarn_beta_slow;
  uint32_t yarn_orig_ctx;
  float defrag_thold;
  void* cb_eval;
  void* cb_eval_user_data;
  int32_t type_k;
  int32_t type_v;
  ggml_abort_callback abort_callback;
  void* abort_callback_data;
  bool embeddings;
  bool offload_kqv;
  bool no_perf;
  bool op_offload;
  bool swa_full;
  bool kv_unified;
  void* samplers;
  size_t n_samplers;
};

struct llama_model_quantize_params {
  int32_t nthread;
  int32_t ftype;
  int32_t output_tensor_type;
  int32_t token_embedding_type;
  bool allow_requantize;
  bool quantize_output_tensor;
  bool only_copy;
  bool pure;
  bool keep_split;
  bool dry_run;
  const void* imatrix;
  const void* kv_overrides;
  const void* tt_overrides;
  const void* prune_layers;
};

}  // extern "C"

static_assert(sizeof(llama_model_params) == 72);
static_assert(offsetof(llama_model_params, tensor_buft_overrides) == 8);
static_assert(offsetof(llama_model_params, n_gpu_layers) == 16);
static_assert(offsetof(llama_model_params, split_mode) == 20);
static_assert(offsetof(llama_model_params, main_gpu) == 24);
static_assert(offsetof(llama_model_params, tensor_split) == 32);
static_assert(offsetof(llama_model_params, progress_callback) == 40);
static_assert(offsetof(llama_model_params, progress_callback_user_data) == 48);
static_assert(offsetof(llama_model_params, kv_overrides) == 56);
static_assert(offsetof(llama_model_params, vocab_only) == 64);
static_assert(offsetof(llama_model_params, use_mmap) == 65);
static_assert(offsetof(llama_model_params, use_direct_io) == 66);
static_assert(offsetof(llama_model_params, use_mlock) == 67);
static_assert(offsetof(llama_model_params, check_tensors) == 68);
static_assert(offsetof(llama_model_params, use_extra_bufts) == 69);
static_assert(offsetof(llama_model_params, no_host) == 70);
static_assert(offsetof(llama_model_params, no_alloc) == 71);

static_assert(sizeof(llama_context_params) == 144);
static_assert(offsetof(llama_context_params, n_batch) == 4);
static_assert(offsetof(llama_context_params, n_ubatch) == 8);
static_assert(offsetof(llama_context_params, n_seq_max) == 12);
static_assert(offsetof(llama_context_params, n_rs_seq) == 16);
static_assert(offsetof(llama_context_params, n_threads) == 20);
static_assert(offsetof(llama_context_params, n_threads_batch) == 24);
static_assert(offsetof(llama_context_params, ctx_type) == 28);
static_assert(offsetof(llama_context_params, rope_scaling_type) == 32);
static_assert(offsetof(llama_context_params, pooling_type) == 36);
static_assert(offsetof(llama_context_params, attention_type) == 40);
static_assert(offsetof(llama_context_params, flash_attn_type) == 44);
static_assert(offsetof(llama_context_params, rope_freq_base) == 48);
static_assert(offsetof(llama_context_params, rope_freq_scale) == 52);
static_assert(offsetof(llama_context_params, yarn_ext_factor) == 56);
static_assert(offsetof(llama_context_params, yarn_attn_factor) == 60);
static_assert(offsetof(llama_context_params, yarn_beta_fast) == 64);
static_assert(offsetof(llama_context_params, yarn_beta_slow) == 68);
static_assert(offsetof(llama_context_params, yarn_orig_ctx) == 72);
static_assert(offsetof(llama_context_params, defrag_thold) == 76);
static_assert(offsetof(llama_context_params, cb_eval) == 80);
static_assert(offsetof(llama_context_params, cb_eval_user_data) == 88);
static_assert(offsetof(llama_context_params, type_k) == 96);
static_assert(offsetof(llama_context_params, type_v) == 100);
static_assert(offsetof(llama_context_params, abort_callback) == 104);
static_assert(offsetof(llama_context_params, abort_callback_data) == 112);
static_assert(offsetof(llama_context_params, embeddings) == 120);
static_assert(offsetof(llama_context_params, offload_kqv) == 121);
static_assert(offsetof(llama_context_params, no_perf) == 122);
static_assert(offsetof(llama_context_params, op_offload) == 123);
static_assert(offsetof(llama_context_params, swa_full) == 124);
static_assert(offsetof(llama_context_params, kv_unified) == 125);
static_assert(offsetof(llama_context_params, samplers) == 128);
static_assert(offsetof(llama_context_params, n_samplers) == 136);

static_assert(sizeof(llama_model_quantize_params) == 56);
static_assert(offsetof(llama_model_quantize_params, ftype) == 4);
static_assert(offsetof(llama_model_quantize_params, output_tensor_type) == 8);
static_assert(offsetof(llama_model_quantize_params, token_embedding_type) == 12);
static_assert(offsetof(llama_model_quantize_params, allow_requantize) == 16);
static_assert(offsetof(llama_model_quantize_params, quantize_output_tensor) == 17);
static_assert(offsetof(llama_model_quantize_params, only_copy) == 18);
static_assert(offsetof(llama_model_quantize_params, pure) == 19);
static_assert(offsetof(llama_model_quantize_params, keep_split) == 20);
static_assert(offsetof(llama_model_quantize_params, dry_run) == 21);
static_assert(offsetof(llama_model_quantize_params, imatrix) == 24);
static_assert(offsetof(llama_model_quantize_params, kv_overrides) == 32);
static_assert(offsetof(llama_model_quantize_params, tt_overrides) == 40);
static_assert(offsetof(llama_model_quantize_params, prune_layers) == 48);
