// ERNIE 4.5, dense and with experts. Older checkpoints have q, k and v in one matrix, and gate and up in another.
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/qkv_pieces.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kErnieRules[] = {
    {"model.layers.{i}.self_attn.qkv_proj.{}", "blk.{i}.attn_q.{}", Change::same, q_of_qkv},
    {"model.layers.{i}.self_attn.qkv_proj.{}", "blk.{i}.attn_k.{}", Change::same, k_of_qkv},
    {"model.layers.{i}.self_attn.qkv_proj.{}", "blk.{i}.attn_v.{}", Change::same, v_of_qkv},
    {"model.layers.{i}.mlp.up_gate_proj.weight", "blk.{i}.ffn_gate.weight", Change::first_half},
    {"model.layers.{i}.mlp.up_gate_proj.weight", "blk.{i}.ffn_up.weight", Change::second_half},
};

constexpr KeyRow kErnieKeys[] = {
    {"context_length", "*", KeyType::u32, otherwise(131072)},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(500000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
};

constexpr TensorRule kErnieMoeRules[] = {
    {"model.layers.{i}.mlp.moe_statics.e_score_correction_bias", "blk.{i}.exp_probs_b.bias", Change::squeeze},
    {"model.layers.{i}.mlp.gate.moe_statics.e_score_correction_bias", "blk.{i}.exp_probs_b.bias", Change::squeeze},
    // Of layers that predict further tokens, which are left out.
    {"model.mtp_block.*", "", Change::drop},
    {"model.mtp_emb_norm.*", "", Change::drop},
    {"model.mtp_hidden_norm.*", "", Change::drop},
    {"model.mtp_linear_proj.*", "", Change::drop},
};

constexpr KeyRow kErnieMoeKeys[] = {
    {"expert_count", "moe_num_experts", KeyType::u32, kRequired},
    {"expert_used_count", "moe_k", KeyType::u32, kRequired},
    {"interleave_moe_layer_step", "moe_layer_interval", KeyType::u32, otherwise(1)},
    {"leading_dense_block_count", "moe_layer_start_index", KeyType::u32, otherwise(1)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "moe_num_shared_experts"},
    {"expert_shared_feed_forward_length", "=shared_width"},
};

constexpr ModelClass kErnieClasses[] = {
    {.names = "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
     .architecture = "ernie4_5",
     .rules = kErnieRules,
     .keys = kErnieKeys},
    {.names = "Ernie4_5_MoeForCausalLM",
     .architecture = "ernie4_5-moe",
     .rules = kErnieMoeRules,
     .keys = kErnieMoeKeys,
     .shared_keys = kErnieKeys},
};

}  // namespace

std::span<const ModelClass> ernie_classes() { return kErnieClasses; }

}  // namespace tessera::convert
