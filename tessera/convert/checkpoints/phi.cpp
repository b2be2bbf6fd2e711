// Phi 1 and 2 with layer norms and biases, and Phi 3 with q, k, v and gate, up in one matrix each.
#include <cmath>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kPhi2Rules[] = {
    {"lm_head.bias", "output.bias"},
    {"model.final_layernorm.{}", "output_norm.{}"},
    {"model.layers.{i}.self_attn.dense.{}", "blk.{i}.attn_output.{}"},
    {"model.layers.{i}.mlp.fc1.{}", "blk.{i}.ffn_up.{}"},
    {"model.layers.{i}.mlp.fc2.{}", "blk.{i}.ffn_down.{}"},
};

constexpr KeyRow kPhi2Keys[] = {
    {"feed_forward_length", "=embedding", KeyType::u32, {}, 4.0},
    {"attention.head_count_kv", "=heads"},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated_half"},
};

constexpr TensorRule kPhi3Rules[] = {
    {"model.layers.{i}.self_attn.qkv_proj.{}", "blk.{i}.attn_qkv.{}"},
    {"model.layers.{i}.mlp.gate_up_proj.{}", "blk.{i}.ffn_up.{}"},
};

constexpr KeyRow kPhi3Keys[] = {
    {"context_length", "*", KeyType::u32, otherwise(4096)},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated"},
    {"rope.scaling.original_context_length", "original_max_position_embeddings", KeyType::u32, otherwise(4096)},
    {"attention.sliding_window", "sliding_window", KeyType::u32, otherwise(0)},
};

// The magnitude that the long context needs. A type of scaling is not stated: the runtime knows it by the factors.
Result<> finish_phi3(ModelDraft& draft) {
  draft.builder.remove(draft.key("rope.scaling.type"));
  if (!draft.has_tensor("rope_factors_long.weight")) return {};
  constexpr double kAbsent = 4096;
  TESSERA_ASSIGN(const auto context, number_of(draft.config, "max_position_embeddings"));
  TESSERA_ASSIGN(const auto original, number_of(draft.config, "original_max_position_embeddings"));
  const double n_original = original.value_or(kAbsent), scale = context.value_or(kAbsent) / n_original;
  if (!(n_original > 1))
    return fail(ErrorCode::format, "{}: original_max_position_embeddings is {}, want at least 2", draft.config.path(),
                n_original);
  const double factor = scale > 1 ? std::sqrt(1 + std::log(scale) / std::log(n_original)) : 1.0;
  draft.builder.set(draft.key("rope.scaling.attn_factor"), static_cast<float>(factor));
  return {};
}

constexpr ModelClass kPhiClasses[] = {
    {.names = "PhiForCausalLM", .architecture = "phi2", .rules = kPhi2Rules, .keys = kPhi2Keys},
    {.names = "Phi3ForCausalLM", .architecture = "phi3", .rules = kPhi3Rules, .keys = kPhi3Keys, .finish = finish_phi3},
};

}  // namespace

std::span<const ModelClass> phi_classes() { return kPhiClasses; }

}  // namespace tessera::convert
