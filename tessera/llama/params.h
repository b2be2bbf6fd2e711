// The parameters of models, contexts and quantizing, in one form for all layouts of llama.h. Defaults are those of
// v0.5.0. A layout's library converts its structs to these.
#pragma once

#include <cstdint>

#include "tessera/llama/abi.h"

namespace tessera::llama {

/// Names of a program's devices, which only its ggml library knows.
using DeviceName = const char* (*)(void* device);

struct ModelParams {
  void* const* devices = nullptr;  // ends with null; null: all
  DeviceName device_name = nullptr;
  bool has_tensor_overrides = false;
  int32_t n_gpu_layers = -1;  // negative: all
  int32_t split_mode = 1;     // 0: one device, 1: layers, 2: rows
  int32_t load_mode = -1;     // see LoadModes in model_load.cpp
  int32_t main_gpu = 0;
  const float* tensor_split = nullptr;  // kMaxDevices shares
  llama_progress_callback progress = nullptr;
  void* progress_user = nullptr;
  const llama_model_kv_override* kv_overrides = nullptr;  // ends with an empty key
  bool vocab_only = false;
  bool check_tensors = false;
  bool use_extra_bufts = true;  // packed weights
  bool no_alloc = false;
};

struct ContextParams {
  uint32_t n_ctx = 512;  // 0: the context that the model was trained with
  uint32_t n_batch = 2048;
  uint32_t n_ubatch = 512;
  uint32_t n_seq_max = 1;
  uint32_t n_outputs_max = 0;  // 0: any
  int32_t n_threads = 4;
  int32_t n_threads_batch = 4;
  int32_t ctx_type = 0;  // 1: multi-token prediction
  int32_t rope_scaling_type = -1;
  int32_t pooling_type = -1;
  int32_t attention_type = -1;
  int32_t flash_attn_type = -1;
  float rope_freq_base = 0;   // 0: the model's
  float rope_freq_scale = 0;  // likewise
  float yarn_ext_factor = -1;
  float yarn_attn_factor = -1;
  float yarn_beta_fast = -1;
  float yarn_beta_slow = -1;
  uint32_t yarn_orig_ctx = 0;
  bool has_eval_callback = false;
  int32_t type_k = 1;  // ids of GGUF
  int32_t type_v = 1;
  ggml_abort_callback abort = nullptr;
  void* abort_user = nullptr;
  bool embeddings = false;
  bool offload_kqv = true;
  bool no_perf = true;
  bool swa_full = true;
  bool kv_unified = false;
  bool has_samplers = false;
};

struct QuantizeParams {
  int32_t n_threads = 0;  // 0: all
  int32_t ftype = 7;      // Q8_0
  int32_t output_tensor_type = 43;
  int32_t token_embedding_type = 43;
  bool allow_requantize = false;
  bool quantize_output_tensor = true;
  bool only_copy = false;
  bool pure = false;
  bool keep_split = false;
  bool dry_run = false;
  bool has_imatrix = false;
  bool has_kv_overrides = false;
  bool has_tensor_types = false;
  bool has_prune_layers = false;
};

inline constexpr int32_t kNoTensorType = 43;  // the number of tensor types in v0.5.0: no type

}  // namespace tessera::llama
