// Qwen 2 and 3, dense and with experts. Experts are tensors of their own, or already stacked with gate and up in one.
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kQwenRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.{i}.mlp.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.mlp.experts.{e}.gate_proj.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.mlp.experts.{e}.up_proj.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.mlp.experts.{e}.down_proj.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_gate_exps.weight", Change::first_half},
    {"model.layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_up_exps.weight", Change::second_half},
    {"model.layers.{i}.mlp.experts.down_proj", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.mlp.shared_expert.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.mlp.shared_expert.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"model.layers.{i}.mlp.shared_expert.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
    {"model.layers.{i}.mlp.shared_expert_gate.weight", "blk.{i}.ffn_gate_inp_shexp.weight"},
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
