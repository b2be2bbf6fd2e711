// OLMo 2 and 3 with norms after attention and FFN, and OLMoE.
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kOlmo2Rules[] = {
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight"},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kOlmo2Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
};

constexpr KeyRow kOlmo3Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"attention.sliding_window", "sliding_window", KeyType::u32, otherwise(4096)},
    {"attention.sliding_window_pattern", "layer_types", KeyType::windows, kRequired},
};

constexpr TensorRule kOlmoeRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kOlmoeKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "", KeyType::f32, otherwise(1e-5)},  // whatever the config says
};

constexpr ModelClass kOlmoClasses[] = {
    {.names = "Olmo2ForCausalLM", .architecture = "olmo2", .rules = kOlmo2Rules, .keys = kOlmo2Keys},
    {.names = "Olmo3ForCausalLM", .architecture = "olmo2", .rules = kOlmo2Rules, .keys = kOlmo3Keys},
    {.names = "OlmoeForCausalLM", .architecture = "olmoe", .rules = kOlmoeRules, .keys = kOlmoeKeys},
};

}  // namespace

std::span<const ModelClass> olmo_classes() { return kOlmoClasses; }

}  // namespace tessera::convert
