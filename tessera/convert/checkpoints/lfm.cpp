// LFM2: short convolutions in most layers, attention in the others; dense and with experts.
#include "tessera/convert/checkpoints/mamba_pieces.h"
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kLfmRules[] = {
    {"model.embedding_norm.weight", "token_embd_norm.weight"},
    {"model.layers.{i}.operator_norm.weight", "blk.{i}.attn_norm.weight"},
    {"model.layers.{i}.ffn_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.conv.conv.weight", "blk.{i}.shortconv.conv.weight", Change::same, without_middle},
    {"model.layers.{i}.conv.in_proj.{}", "blk.{i}.shortconv.in_proj.{}"},
    {"model.layers.{i}.conv.out_proj.{}", "blk.{i}.shortconv.out_proj.{}"},
    {"model.layers.{i}.self_attn.q_layernorm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_layernorm.weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.{i}.self_attn.out_proj.{}", "blk.{i}.attn_output.{}"},
    {"model.layers.{i}.feed_forward.w1.weight", "blk.{i}.ffn_gate.weight"},
    {"model.layers.{i}.feed_forward.w3.weight", "blk.{i}.ffn_up.weight"},
    {"model.layers.{i}.feed_forward.w2.weight", "blk.{i}.ffn_down.weight"},
    {"model.layers.{i}.feed_forward.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.feed_forward.expert_bias", "blk.{i}.exp_probs_b.bias"},
    {"model.layers.{i}.feed_forward.experts.{e}.w1.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.feed_forward.experts.{e}.w3.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.feed_forward.experts.{e}.w2.weight", "blk.{i}.ffn_down_exps.weight"},
};

constexpr KeyRow kLfmKeys[] = {
    {"feed_forward_length", "=lfm2_ffn intermediate_size"},
    {"attention.head_count_kv", "layer_types", KeyType::kv_heads, kRequired},
    {"rope.freq_base", "*", KeyType::f32, otherwise(1e6)},
    {"attention.layer_norm_rms_epsilon", "norm_eps block_norm_eps", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"shortconv.l_cache", "conv_L_cache", KeyType::u32, otherwise(3)},
};

constexpr KeyRow kLfmMoeKeys[] = {
    {"feed_forward_length", "intermediate_size"},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"leading_dense_block_count", "num_dense_layers", KeyType::u32, otherwise(2)},
    {"expert_gating_func", "", KeyType::function, otherwise_text("sigmoid")},
};

constexpr ModelClass kLfmClasses[] = {
    {.names = "Lfm2ForCausalLM", .architecture = "lfm2", .rules = kLfmRules, .keys = kLfmKeys},
    {.names = "Lfm2MoeForCausalLM",
     .architecture = "lfm2moe",
     .rules = kLfmRules,
     .keys = kLfmMoeKeys,
     .shared_keys = kLfmKeys},
};

}  // namespace

std::span<const ModelClass> lfm_classes() { return kLfmClasses; }

}  // namespace tessera::convert
