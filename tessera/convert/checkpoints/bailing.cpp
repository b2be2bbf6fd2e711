// Ling and Ring (BailingMoE): q, k and v in one matrix, which the first version has in the order of Llama.
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/qkv_pieces.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kBailingRules[] = {
    {"model.word_embeddings.weight", "token_embd.weight"},
    {"model.layers.{i}.attention.dense.{}", "blk.{i}.attn_output.{}"},
    {"model.layers.{i}.attention.query_key_value.{}", "blk.{i}.attn_q.{}", Change::same, q_of_qkv_in_pairs},
    {"model.layers.{i}.attention.query_key_value.{}", "blk.{i}.attn_k.{}", Change::same, k_of_qkv_in_pairs},
    {"model.layers.{i}.attention.query_key_value.{}", "blk.{i}.attn_v.{}", Change::same, v_of_qkv},
};

constexpr KeyRow kBailingKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
    {"leading_dense_block_count", "first_k_dense_replace", KeyType::u32, otherwise(0)},
    {"expert_feed_forward_length", "moe_intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "num_shared_experts", KeyType::u32, otherwise(0)},
    {"expert_weights_scale", "", KeyType::f32, otherwise(1)},
    {"expert_weights_norm", "norm_topk_prob", KeyType::boolean, otherwise(0)},
};

// The output layer of some training runs is normalized when it is used.
Result<> check_bailing_head(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto is_normalized, draft.config.flag({"norm_head"}));
  if (!is_normalized.value_or(false)) return {};
  return fail(ErrorCode::unsupported, "{}: norm_head: output layers that are normalized when used are not converted",
              draft.config.path());
}

constexpr TensorRule kBailing2Rules[] = {
    {"model.word_embeddings.weight", "token_embd.weight"},
    {"model.layers.{i}.attention.dense.{}", "blk.{i}.attn_output.{}"},
    {"model.layers.{i}.attention.query_key_value.{}", "blk.{i}.attn_qkv.{}"},
    {"model.layers.{i}.attention.query_layernorm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.attention.key_layernorm.weight", "blk.{i}.attn_k_norm.weight"},
    {"model.layers.{i}.mlp.gate.expert_bias", "blk.{i}.exp_probs_b.bias"},
    // Of layers that predict further tokens, which are left out.
    {"model.layers.{i}.eh_proj.weight", "", Change::drop},
    {"model.layers.{i}.enorm.weight", "", Change::drop},
    {"model.layers.{i}.hnorm.weight", "", Change::drop},
    {"model.layers.{i}.final_layernorm.weight", "", Change::drop},
};

constexpr KeyRow kBailing2Keys[] = {
    {"rope.dimension_count", "=rotated_half"},
    {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"},
    {"expert_weights_scale", "routed_scaling_factor", KeyType::f32, otherwise(1)},
    {"expert_gating_func", "*", KeyType::function, otherwise_text("sigmoid")},
};

constexpr ModelClass kBailingClasses[] = {
    {.names = "BailingMoeForCausalLM",
     .architecture = "bailingmoe",
     .rules = kBailingRules,
     .keys = kBailingKeys,
     .finish = check_bailing_head},
    {.names = "BailingMoeV2ForCausalLM",
     .architecture = "bailingmoe2",
     .rules = kBailing2Rules,
     .keys = kBailing2Keys,
     .shared_keys = kBailingKeys,
     .later_layers = LaterLayers::dropped,
     .finish = check_bailing_head},
};

}  // namespace

std::span<const ModelClass> bailing_classes() { return kBailingClasses; }

}  // namespace tessera::convert
