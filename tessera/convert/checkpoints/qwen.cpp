// Qwen 2 and 3, dense and with experts.
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kQwenRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kQwen2Keys[] = {
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(32)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
};

constexpr KeyRow kQwen3Keys[] = {
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(32)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.key_length", "*", KeyType::u32, otherwise(128)},
    {"attention.value_length", "*", KeyType::u32, otherwise(128)},
};

constexpr KeyRow kQwen2MoeKeys[] = {
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
};

constexpr ModelClass kQwenClasses[] = {
    {.names = "Qwen2ForCausalLM", .architecture = "qwen2", .rules = {}, .keys = kQwen2Keys},
    {.names = "Qwen2MoeForCausalLM", .architecture = "qwen2moe", .rules = kQwenRules, .keys = kQwen2MoeKeys},
    {.names = "Qwen3ForCausalLM", .architecture = "qwen3", .rules = kQwenRules, .keys = kQwen3Keys},
    {.names = "Qwen3MoeForCausalLM", .architecture = "qwen3moe", .rules = kQwenRules, .keys = kQwen2MoeKeys},
};

}  // namespace

std::span<const ModelClass> qwen_classes() { return kQwenClasses; }

}  // namespace tessera::convert
