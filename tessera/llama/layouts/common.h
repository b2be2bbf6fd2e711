// Conversions of the members that layouts of llama.h share, with any offsets. Members that a layout lacks keep the
// default.
#pragma once

#include "tessera/llama/params.h"

namespace tessera::llama {

template <class Model>
void set_common_model(Model& to) {
  const ModelParams from;
  to.n_gpu_layers = from.n_gpu_layers;
  to.split_mode = from.split_mode;
  to.main_gpu = from.main_gpu;
  to.use_extra_bufts = from.use_extra_bufts;
}

template <class Model>
ModelParams common_model(const Model& from) {
  ModelParams to;
  to.devices = from.devices;
  to.has_tensor_overrides =
      from.tensor_buft_overrides != nullptr && *static_cast<const char* const*>(from.tensor_buft_overrides) != nullptr;
  to.n_gpu_layers = from.n_gpu_layers;
  to.split_mode = from.split_mode;
  to.main_gpu = from.main_gpu;
  to.tensor_split = from.tensor_split;
  to.progress = from.progress_callback;
  to.progress_user = from.progress_callback_user_data;
  to.kv_overrides = from.kv_overrides;
  to.vocab_only = from.vocab_only;
  to.check_tensors = from.check_tensors;
  to.use_extra_bufts = from.use_extra_bufts;
  to.no_alloc = from.no_alloc;
  if constexpr (requires { from.load_mode; }) to.load_mode = from.load_mode;
  return to;
}

template <class Context>
void set_common_context(Context& to) {
  const ContextParams from;
  to.n_ctx = from.n_ctx;
  to.n_batch = from.n_batch;
  to.n_ubatch = from.n_ubatch;
  to.n_seq_max = from.n_seq_max;
  to.n_threads = from.n_threads;
  to.n_threads_batch = from.n_threads_batch;
  to.rope_scaling_type = from.rope_scaling_type;
  to.pooling_type = from.pooling_type;
  to.attention_type = from.attention_type;
  to.flash_attn_type = from.flash_attn_type;
  to.yarn_ext_factor = from.yarn_ext_factor;
  to.yarn_attn_factor = from.yarn_attn_factor;
  to.yarn_beta_fast = from.yarn_beta_fast;
  to.yarn_beta_slow = from.yarn_beta_slow;
  to.defrag_thold = -1;
  to.type_k = from.type_k;
  to.type_v = from.type_v;
  to.offload_kqv = from.offload_kqv;
  to.no_perf = from.no_perf;
  to.op_offload = true;
  to.swa_full = from.swa_full;
}

template <class Context>
ContextParams common_context(const Context& from) {
  ContextParams to;
  to.n_ctx = from.n_ctx;
  to.n_batch = from.n_batch;
  to.n_ubatch = from.n_ubatch;
  to.n_seq_max = from.n_seq_max;
  to.n_threads = from.n_threads;
  to.n_threads_batch = from.n_threads_batch;
  to.ctx_type = from.ctx_type;
  to.rope_scaling_type = from.rope_scaling_type;
  to.pooling_type = from.pooling_type;
  to.attention_type = from.attention_type;
  to.flash_attn_type = from.flash_attn_type;
  to.rope_freq_base = from.rope_freq_base;
  to.rope_freq_scale = from.rope_freq_scale;
  to.yarn_ext_factor = from.yarn_ext_factor;
  to.yarn_attn_factor = from.yarn_attn_factor;
  to.yarn_beta_fast = from.yarn_beta_fast;
  to.yarn_beta_slow = from.yarn_beta_slow;
  to.yarn_orig_ctx = from.yarn_orig_ctx;
  to.has_eval_callback = from.cb_eval != nullptr;
  to.type_k = from.type_k;
  to.type_v = from.type_v;
  to.abort = from.abort_callback;
  to.abort_user = from.abort_callback_data;
  to.embeddings = from.embeddings;
  to.offload_kqv = from.offload_kqv;
  to.no_perf = from.no_perf;
  to.swa_full = from.swa_full;
  to.kv_unified = from.kv_unified;
  to.has_samplers = from.n_samplers > 0;
  if constexpr (requires { from.n_outputs_max; }) to.n_outputs_max = from.n_outputs_max;
  return to;
}

template <class Quantize>
void set_common_quantize(Quantize& to) {
  const QuantizeParams from;
  to.ftype = from.ftype;
  to.output_tensor_type = from.output_tensor_type;
  to.token_embedding_type = from.token_embedding_type;
  to.quantize_output_tensor = from.quantize_output_tensor;
}

template <class Quantize>
QuantizeParams common_quantize(const Quantize& from) {
  QuantizeParams to;
  to.n_threads = from.nthread;
  to.ftype = from.ftype;
  to.output_tensor_type = from.output_tensor_type;
  to.token_embedding_type = from.token_embedding_type;
  to.allow_requantize = from.allow_requantize;
  to.quantize_output_tensor = from.quantize_output_tensor;
  to.only_copy = from.only_copy;
  to.pure = from.pure;
  to.keep_split = from.keep_split;
  to.dry_run = from.dry_run;
  to.has_imatrix = from.imatrix != nullptr;
  to.has_kv_overrides = from.kv_overrides != nullptr;
  to.has_tensor_types = from.tt_overrides != nullptr;
  to.has_prune_layers = from.prune_layers != nullptr;
  return to;
}

}  // namespace tessera::llama
