// Decoders that differ from Llama by a few rows.
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kStableLmRules[] = {
    {"model.layers.{i}.self_attn.q_layernorm.norms.{e}.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_layernorm.norms.{e}.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kStableLmKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated_quarter"},
    {"use_parallel_residual", "use_parallel_residual", KeyType::boolean, otherwise(0)},
};

constexpr TensorRule kNemotronRules[] = {
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight", Change::add_one},
};

constexpr KeyRow kNemotronKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "layer_norm_eps norm_eps", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=rotated_half"},
};

Result<> finish_nemotron(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto factor, draft.config.number({"factor", "rope_scaling.factor"}));
  draft.builder.set(draft.key("rope.scaling.type"), factor ? "linear" : "none");
  if (factor) draft.builder.set(draft.key("rope.scaling.factor"), static_cast<float>(*factor));
  return {};
}

constexpr TensorRule kSeedRules[] = {
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
};

constexpr KeyRow kSeedKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
};

constexpr ModelClass kDecoderClasses[] = {
    {.names = "StableLmForCausalLM StableLMEpochForCausalLM",
     .architecture = "stablelm",
     .rules = kStableLmRules,
     .keys = kStableLmKeys},
    {.names = "NemotronForCausalLM",
     .architecture = "nemotron",
     .rules = kNemotronRules,
     .keys = kNemotronKeys,
     .scaling = RopeScaling::none,
     .finish = finish_nemotron},
    {.names = "SeedOssForCausalLM", .architecture = "seed_oss", .rules = kSeedRules, .keys = kSeedKeys},
};

}  // namespace

std::span<const ModelClass> decoders_classes() { return kDecoderClasses; }

}  // namespace tessera::convert
