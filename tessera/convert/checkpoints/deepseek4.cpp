// DeepSeek V4, under the names of its own code and under those of transformers. Its rope turns pairs of neighbours, as
// in GGUF, so rows keep their order.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

// Heads that predict further tokens (mtp) are left out.
constexpr TensorRule kDeepseek4Rules[] = {
    {"mtp.*", "", Change::drop},
    {"model.mtp.*", "", Change::drop},
    {"model.embed.weight", "token_embd.weight"},
    {"head.weight", "output.weight"},
    {"model.hc_head_fn", "output_hc_fn.weight"},
    {"model.hc_head_base", "output_hc_base.weight"},
    {"model.hc_head_scale", "output_hc_scale.weight"},
    {"model.layers.{i}.hc_attn_fn", "blk.{i}.hc_attn_fn.weight"},
    {"model.layers.{i}.hc_attn_base", "blk.{i}.hc_attn_base.weight"},
    {"model.layers.{i}.hc_attn_scale", "blk.{i}.hc_attn_scale.weight"},
    {"model.layers.{i}.hc_ffn_fn", "blk.{i}.hc_ffn_fn.weight"},
    {"model.layers.{i}.hc_ffn_base", "blk.{i}.hc_ffn_base.weight"},
    {"model.layers.{i}.hc_ffn_scale", "blk.{i}.hc_ffn_scale.weight"},
    {"model.layers.{i}.attn_norm.weight", "blk.{i}.attn_norm.weight"},
    {"model.layers.{i}.ffn_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.attn.attn_sink", "blk.{i}.attn_sinks.weight"},
    {"model.layers.{i}.attn.wq_a.weight", "blk.{i}.attn_q_a.weight"},
    {"model.layers.{i}.attn.q_norm.weight", "blk.{i}.attn_q_a_norm.weight"},
    {"model.layers.{i}.attn.wq_b.weight", "blk.{i}.attn_q_b.weight"},
    {"model.layers.{i}.attn.wkv.weight", "blk.{i}.attn_kv.weight"},
    {"model.layers.{i}.attn.kv_norm.weight", "blk.{i}.attn_kv_a_norm.weight"},
    {"model.layers.{i}.attn.wo_a.weight", "blk.{i}.attn_output_a.weight"},
    {"model.layers.{i}.attn.wo_b.weight", "blk.{i}.attn_output_b.weight"},
    {"model.layers.{i}.attn.compressor.wkv.weight", "blk.{i}.attn_compressor_kv.weight"},
    {"model.layers.{i}.attn.compressor.wgate.weight", "blk.{i}.attn_compressor_gate.weight"},
    {"model.layers.{i}.attn.compressor.ape", "blk.{i}.attn_compressor_ape.weight"},
    {"model.layers.{i}.attn.compressor.norm.weight", "blk.{i}.attn_compressor_norm.weight"},
    {"model.layers.{i}.attn.indexer.wq_b.weight", "blk.{i}.indexer.attn_q_b.weight"},
    {"model.layers.{i}.attn.indexer.weights_proj.weight", "blk.{i}.indexer.proj.weight"},
    {"model.layers.{i}.attn.indexer.compressor.wkv.weight", "blk.{i}.indexer_compressor_kv.weight"},
    {"model.layers.{i}.attn.indexer.compressor.wgate.weight", "blk.{i}.indexer_compressor_gate.weight"},
    {"model.layers.{i}.attn.indexer.compressor.ape", "blk.{i}.indexer_compressor_ape.weight"},
    {"model.layers.{i}.attn.indexer.compressor.norm.weight", "blk.{i}.indexer_compressor_norm.weight"},
    {"model.layers.{i}.ffn.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.ffn.gate.bias", "blk.{i}.exp_probs_b.bias"},
    {"model.layers.{i}.ffn.gate.tid2eid", "blk.{i}.ffn_gate_tid2eid.weight", Change::integers},
    {"model.layers.{i}.ffn.experts.{e}.w1.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.ffn.experts.{e}.w2.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.ffn.experts.{e}.w3.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.ffn.shared_experts.w1.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.ffn.shared_experts.w2.weight", "blk.{i}.ffn_down_shexp.weight"},
    {"model.layers.{i}.ffn.shared_experts.w3.weight", "blk.{i}.ffn_up_shexp.weight"},
};

// The names of transformers, where they are not those of most decoders.
constexpr TensorRule kDeepseek4HubRules[] = {
    {"model.hc_head.hc_fn", "output_hc_fn.weight"},
    {"model.hc_head.hc_base", "output_hc_base.weight"},
    {"model.hc_head.hc_scale", "output_hc_scale.weight"},
    {"model.layers.{i}.attn_hc.fn", "blk.{i}.hc_attn_fn.weight"},
    {"model.layers.{i}.attn_hc.base", "blk.{i}.hc_attn_base.weight"},
    {"model.layers.{i}.attn_hc.scale", "blk.{i}.hc_attn_scale.weight"},
    {"model.layers.{i}.ffn_hc.fn", "blk.{i}.hc_ffn_fn.weight"},
    {"model.layers.{i}.ffn_hc.base", "blk.{i}.hc_ffn_base.weight"},
    {"model.layers.{i}.ffn_hc.scale", "blk.{i}.hc_ffn_scale.weight"},
    {"model.layers.{i}.self_attn.sinks", "blk.{i}.attn_sinks.weight"},
    {"model.layers.{i}.self_attn.q_a_proj.weight", "blk.{i}.attn_q_a.weight"},
    {"model.layers.{i}.self_attn.q_a_norm.weight", "blk.{i}.attn_q_a_norm.weight"},
    {"model.layers.{i}.self_attn.q_b_proj.weight", "blk.{i}.attn_q_b.weight"},
    {"model.layers.{i}.self_attn.kv_proj.weight", "blk.{i}.attn_kv.weight"},
    {"model.layers.{i}.self_attn.kv_norm.weight", "blk.{i}.attn_kv_a_norm.weight"},
    {"model.layers.{i}.self_attn.o_a_proj.weight", "blk.{i}.attn_output_a.weight"},
    {"model.layers.{i}.self_attn.o_b_proj.weight", "blk.{i}.attn_output_b.weight"},
    {"model.layers.{i}.self_attn.compressor.kv_proj.weight", "blk.{i}.attn_compressor_kv.weight"},
    {"model.layers.{i}.self_attn.compressor.gate_proj.weight", "blk.{i}.attn_compressor_gate.weight"},
    {"model.layers.{i}.self_attn.compressor.position_bias", "blk.{i}.attn_compressor_ape.weight"},
    {"model.layers.{i}.self_attn.compressor.kv_norm.weight", "blk.{i}.attn_compressor_norm.weight"},
    {"model.layers.{i}.self_attn.compressor.indexer.q_b_proj.weight", "blk.{i}.indexer.attn_q_b.weight"},
    {"model.layers.{i}.self_attn.compressor.indexer.weights_proj.weight", "blk.{i}.indexer.proj.weight"},
    {"model.layers.{i}.self_attn.compressor.indexer.scorer.weights_proj.weight", "blk.{i}.indexer.proj.weight"},
    {"model.layers.{i}.self_attn.compressor.indexer.kv_proj.weight", "blk.{i}.indexer_compressor_kv.weight"},
    {"model.layers.{i}.self_attn.compressor.indexer.gate_proj.weight", "blk.{i}.indexer_compressor_gate.weight"},
    {"model.layers.{i}.self_attn.compressor.indexer.position_bias", "blk.{i}.indexer_compressor_ape.weight"},
    {"model.layers.{i}.self_attn.compressor.indexer.kv_norm.weight", "blk.{i}.indexer_compressor_norm.weight"},
    {"model.layers.{i}.mlp.gate.tid2eid", "blk.{i}.ffn_gate_tid2eid.weight", Change::integers},
};

constexpr KeyRow kDeepseek4Keys[] = {
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(1)},
    {"attention.key_length", "head_dim", KeyType::u32, kRequired},
    {"attention.value_length", "head_dim", KeyType::u32, kRequired},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.q_lora_rank", "q_lora_rank", KeyType::u32, kRequired},
    {"attention.sliding_window", "sliding_window", KeyType::u32, kRequired},
    {"attention.output_group_count", "o_groups", KeyType::u32, kRequired},
    {"attention.output_lora_rank", "o_lora_rank", KeyType::u32, kRequired},
    {"attention.compress_rope_freq_base", "compress_rope_theta rope_parameters.compress.rope_theta", KeyType::f32,
     kRequired},
    {"attention.indexer.head_count", "index_n_heads", KeyType::u32, kRequired},
    {"attention.indexer.key_length", "index_head_dim", KeyType::u32, kRequired},
    {"attention.indexer.top_k", "index_topk", KeyType::u32, kRequired},
    {"rope.freq_base", "* rope_parameters.main.rope_theta", KeyType::f32, otherwise(10000)},
    {"hyper_connection.count", "hc_mult", KeyType::u32, kRequired},
    {"hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", KeyType::u32, kRequired},
    {"hyper_connection.epsilon", "hc_eps", KeyType::f32, kRequired},
    {"expert_group_count", ""},  // its code does not read the groups that a config may state
    {"expert_group_used_count", ""},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "n_shared_experts", KeyType::u32, kRequired},
    {"expert_weights_scale", "routed_scaling_factor", KeyType::f32, otherwise(1.5)},
    {"expert_weights_norm", "norm_topk_prob", KeyType::boolean, otherwise(1)},
    {"expert_gating_func", "*", KeyType::function, otherwise_text("sqrtsoftplus")},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
};

/// Kinds of layers in layer_types, and the tokens that an entry stands for where compress_rates has none.
struct CompressedKind {
  std::string_view name;
  int64_t ratio;
};
constexpr CompressedKind kCompressedKinds[] = {
    {"sliding_attention", 0}, {"compressed_sparse_attention", 4}, {"heavily_compressed_attention", 128}};

Result<int64_t> ratio_of_kind(const HubConfig& config, const std::string& name) {
  const auto* const kind = std::ranges::find(kCompressedKinds, name, &CompressedKind::name);
  if (kind == std::end(kCompressedKinds))
    return fail(ErrorCode::unsupported, "{}: layer_types: {} is not known", config.path(), text::quote_text(name));
  if (kind->ratio == 0) return 0;
  TESSERA_ASSIGN(const auto stated, config.integer({"compress_rates." + name}, 1, INT32_MAX));
  return stated.value_or(kind->ratio);
}

// The list of ratios has more items for heads that predict further tokens.
Result<> add_ratios(ModelDraft& draft, size_t n_layers) {
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const auto kinds, layer_types_of(config));
  std::vector<int32_t> ratios;
  if (kinds) {
    for (const std::string& kind : *kinds) {
      TESSERA_ASSIGN(const int64_t ratio, ratio_of_kind(config, kind));
      ratios.push_back(static_cast<int32_t>(ratio));
    }
  } else {
    TESSERA_ASSIGN(const auto stated, config.integers({"compress_ratios"}, 0, INT32_MAX));
    if (!stated || stated->size() < n_layers)
      return fail(ErrorCode::format, "{}: compress_ratios: want a list of one number per layer", config.path());
    ratios.assign(stated->begin(), stated->begin() + static_cast<std::ptrdiff_t>(n_layers));
  }
  draft.builder.set_array(draft.key("attention.compress_ratios"), ratios);
  return {};
}

// The first layers, whose experts a table chooses.
Result<int64_t> hash_layers_of(const HubConfig& config, size_t n_layers) {
  const Json* const kinds = config.find({"mlp_layer_types"});
  if (kinds == nullptr) return config.require_integer({"num_hash_layers"}, 0, kMaxLayers);
  size_t n = 0;
  while (kinds->is_array() && n < std::min(n_layers, kinds->size()) && (*kinds)[n] == "hash_moe") ++n;
  bool is_known = kinds->is_array() && kinds->size() >= n_layers;
  for (size_t i = n; is_known && i < n_layers; ++i) is_known = (*kinds)[i] == "moe";
  if (!is_known)
    return fail(ErrorCode::unsupported, "{}: mlp_layer_types: want a kind per layer, first hash_moe and then moe",
                config.path());
  return static_cast<int64_t>(n);
}

Result<> add_rotated(ModelDraft& draft) {
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const auto stated, config.integer({"qk_rope_head_dim"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const auto share,
                 config.number({"partial_rotary_factor", "rope_parameters.main.partial_rotary_factor"}));
  TESSERA_ASSIGN(const int64_t size, head_size_of(config));
  const double n = stated ? static_cast<double>(*stated) : share.value_or(0) * static_cast<double>(size);
  if (!(n >= 2 && n <= static_cast<double>(size)) || std::fmod(n, 2) != 0)
    return fail(ErrorCode::format, "{}: qk_rope_head_dim is {}, want an even number of a head's {}", config.path(), n,
                size);
  draft.builder.set(draft.key("rope.dimension_count"), static_cast<uint32_t>(n));
  return {};
}

// Integers of 64 bits become those of 32 bits by way of floats, so their bound is far below that of either.
Result<> check_experts(const ModelDraft& draft, const ConvertedTensor& tensor, int64_t n_experts) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  std::vector<std::byte> stored;
  std::vector<float> numbers;
  for (const ConvertedTensor::Part& part : tensor.parts) {
    const StoredTensor& view = part.view;
    if (view.type != ElementType::i64 && view.type != ElementType::i32)
      return fail(ErrorCode::mismatch, "{}: elements of type {}, want I64 or I32", view.name, element_name(view.type));
    for (int64_t at = 0; at < view.n_elements(); at += kPiece) {
      const int64_t n = std::min(kPiece, view.n_elements() - at);
      stored.resize(to_size(n) * element_bytes(view.type));
      numbers.resize(to_size(n));
      draft.checkpoint.read(view, part.file, at, stored);
      draft.checkpoint.forget(view, part.file, at, n);
      to_floats(view.type, stored, numbers);
      const auto bad = std::ranges::find_if(
          numbers, [&](float number) { return !(number >= 0 && number < static_cast<float>(n_experts)); });
      if (bad != numbers.end())
        return fail(ErrorCode::format, "{}: element {} is {}, want the number of one of {} experts", view.name,
                    at + (bad - numbers.begin()), *bad, n_experts);
    }
  }
  return {};
}

Result<> finish_deepseek4(ModelDraft& draft) {
  constexpr int64_t kMostExperts = 1 << 20;
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  TESSERA_TRY(add_ratios(draft, to_size(n_layers)));
  TESSERA_TRY(add_rotated(draft));
  TESSERA_ASSIGN(const int64_t n_hashed, hash_layers_of(config, to_size(n_layers)));
  draft.builder.set(draft.key("hash_layer_count"), static_cast<uint32_t>(n_hashed));
  TESSERA_ASSIGN(const auto limit, config.number({"swiglu_limit"}));
  if (!limit) return fail(ErrorCode::not_found, "{}: no swiglu_limit", config.path());
  const std::vector<float> limits(to_size(n_layers), static_cast<float>(*limit));
  draft.builder.set_array(draft.key("swiglu_clamp_exp"), limits);
  TESSERA_ASSIGN(const int64_t n_experts,
                 config.require_integer({"n_routed_experts", "num_local_experts"}, 1, kMostExperts));
  for (const ConvertedTensor& tensor : draft.tensors)
    if (tensor.values == ValueChange::integers) TESSERA_TRY(check_experts(draft, tensor, n_experts));
  return {};
}

constexpr ModelClass kDeepseek4Classes[] = {
    {.names = "DeepseekV4ForCausalLM",
     .architecture = "deepseek4",
     .rules = kDeepseek4Rules,
     .keys = kDeepseek4Keys,
     .shared_rules = kDeepseek4HubRules,
     .later_layers = LaterLayers::dropped,
     .finish = finish_deepseek4},
};

}  // namespace

std::span<const ModelClass> deepseek4_classes() { return kDeepseek4Classes; }

}  // namespace tessera::convert
