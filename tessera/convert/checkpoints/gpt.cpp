// GPT-2 and its relatives: GPT-NeoX, Falcon, BLOOM, MPT and StarCoder2.
#include "tessera/convert/checkpoints/gpt_rules.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/qkv_pieces.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kGpt2Rules[] = {
    {"h.{i}.attn.c_attn.weight", "blk.{i}.attn_qkv.weight", Change::transpose},
    {"h.{i}.attn.c_proj.weight", "blk.{i}.attn_output.weight", Change::transpose},
    {"h.{i}.mlp.c_fc.weight", "blk.{i}.ffn_up.weight", Change::transpose},
    {"h.{i}.mlp.c_proj.weight", "blk.{i}.ffn_down.weight", Change::transpose},
};

constexpr KeyRow kGpt2Keys[] = {
    {"context_length", "n_ctx n_positions", KeyType::u32, otherwise(1024)},
    {"feed_forward_length", "=embedding", KeyType::u32, {}, 4.0},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
};

constexpr TensorRule kGptNeoXRules[] = {
    {"embed_out.weight", "output.weight"},
    {"gpt_neox.embed_in.weight", "token_embd.weight"},
    {"gpt_neox.final_layer_norm.{}", "output_norm.{}"},
    {"gpt_neox.layers.{i}.input_layernorm.{}", "blk.{i}.attn_norm.{}"},
    {"gpt_neox.layers.{i}.post_attention_layernorm.{}", "blk.{i}.ffn_norm.{}"},
    {"gpt_neox.layers.{i}.attention.query_key_value.{}", "blk.{i}.attn_qkv.{}", Change::same, qkv_of_each_head},
    {"gpt_neox.layers.{i}.attention.dense.{}", "blk.{i}.attn_output.{}"},
    {"gpt_neox.layers.{i}.mlp.dense_h_to_4h.{}", "blk.{i}.ffn_up.{}"},
    {"gpt_neox.layers.{i}.mlp.dense_4h_to_h.{}", "blk.{i}.ffn_down.{}"},
};

constexpr KeyRow kGptNeoXKeys[] = {
    {"attention.head_count_kv", ""},  // q, k and v have the same heads
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated_quarter"},
    {"use_parallel_residual", "use_parallel_residual", KeyType::boolean, otherwise(1)},
};

// Each KV head follows the query heads that read it: all q, all k, all v.
Result<TensorPieces> groups_of_heads(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const auto is_new, facts.config->flag({"new_decoder_architecture"}));
  TESSERA_ASSIGN(const auto is_multi_query, facts.config->flag({"multi_query"}));
  const int64_t n_heads = facts.heads.q;
  const int64_t n_groups = is_new.value_or(false) ? facts.heads.kv : is_multi_query.value_or(true) ? 1 : n_heads;
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  if (n_groups <= 0 || n_heads % n_groups != 0 || n_rows % (n_heads + 2 * n_groups) != 0)
    return fail(ErrorCode::mismatch, "{}: {} rows, want {} groups of {} heads and their k and v", tensor.name, n_rows,
                n_groups, n_heads);
  const int64_t n_in_group = n_heads / n_groups;
  std::vector<int64_t> shape = {n_groups, n_in_group + 2, n_rows / (n_heads + 2 * n_groups)};
  shape.insert(shape.end(), tensor.shape.begin() + 1, tensor.shape.end());
  TESSERA_ASSIGN(const StoredTensor apart, reshaped(tensor, std::move(shape)));
  TESSERA_ASSIGN(StoredTensor q, part_of(apart, 1, 0, n_in_group));
  TESSERA_ASSIGN(StoredTensor k, part_of(apart, 1, n_in_group, 1));
  TESSERA_ASSIGN(StoredTensor v, part_of(apart, 1, n_in_group + 1, 1));
  return TensorPieces{{std::move(q), std::move(k), std::move(v)}, tensor.shape};
}

constexpr TensorRule kFalconRules[] = {
    {"lm_head.weight", "output.weight"},
    {"word_embeddings.weight", "token_embd.weight"},
    {"ln_f.{}", "output_norm.{}"},
    {"h.{i}.ln_attn.{}", "blk.{i}.attn_norm_2.{}"},
    {"h.{i}.ln_mlp.{}", "blk.{i}.attn_norm.{}"},
    {"h.{i}.input_layernorm.{}", "blk.{i}.attn_norm.{}"},
    {"h.{i}.self_attention.query_key_value.{}", "blk.{i}.attn_qkv.{}", Change::same, groups_of_heads},
    {"h.{i}.self_attention.dense.{}", "blk.{i}.attn_output.{}"},
    {"h.{i}.mlp.dense_h_to_4h.{}", "blk.{i}.ffn_up.{}"},
    {"h.{i}.mlp.dense_4h_to_h.{}", "blk.{i}.ffn_down.{}"},
};

constexpr KeyRow kFalconKeys[] = {
    {"context_length", "", KeyType::u32, otherwise(2048)},  // configs do not state it
    {"feed_forward_length", "=embedding", KeyType::u32, {}, 4.0},
    {"attention.head_count_kv", "n_head_kv num_kv_heads", KeyType::u32, otherwise(1)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"tensor_data_layout", "", KeyType::text, otherwise_text("jploski")},
};

constexpr TensorRule kBloomRules[] = {
    {"lm_head.weight", "output.weight"},
    {"word_embeddings.weight", "token_embd.weight"},
    {"word_embeddings_layernorm.{}", "token_embd_norm.{}"},
    {"ln_f.{}", "output_norm.{}"},
    {"h.{i}.input_layernorm.{}", "blk.{i}.attn_norm.{}"},
    {"h.{i}.post_attention_layernorm.{}", "blk.{i}.ffn_norm.{}"},
    {"h.{i}.self_attention.query_key_value.{}", "blk.{i}.attn_qkv.{}", Change::same, qkv_of_each_head},
    {"h.{i}.self_attention.dense.{}", "blk.{i}.attn_output.{}"},
    {"h.{i}.mlp.dense_h_to_4h.{}", "blk.{i}.ffn_up.{}"},
    {"h.{i}.mlp.dense_4h_to_h.{}", "blk.{i}.ffn_down.{}"},
};

constexpr KeyRow kBloomKeys[] = {
    {"context_length", "seq_length =embedding"},
    {"feed_forward_length", "=embedding", KeyType::u32, {}, 4.0},
    {"attention.head_count_kv", "=heads"},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
};

constexpr TensorRule kMptRules[] = {
    {"wte.weight", "token_embd.weight"},
    {"wpe.weight", "position_embd.weight"},
    {"norm_f.{}", "output_norm.{}"},
    {"lm_head.weight", "output.weight"},
    {"blocks.{i}.norm_1.{}", "blk.{i}.attn_norm.{}"},
    {"blocks.{i}.norm_2.{}", "blk.{i}.ffn_norm.{}"},
    {"blocks.{i}.attn.Wqkv.{}", "blk.{i}.attn_qkv.{}"},
    {"blocks.{i}.attn.q_ln.{}", "blk.{i}.attn_q_norm.{}"},
    {"blocks.{i}.attn.k_ln.{}", "blk.{i}.attn_k_norm.{}"},
    {"blocks.{i}.attn.out_proj.{}", "blk.{i}.attn_output.{}"},
    {"blocks.{i}.ffn.up_proj.{}", "blk.{i}.ffn_up.{}"},
    {"blocks.{i}.ffn.down_proj.{}", "blk.{i}.ffn_down.{}"},
};

constexpr KeyRow kMptKeys[] = {
    {"context_length", "max_seq_len", KeyType::u32, kRequired},
    {"feed_forward_length", "=embedding", KeyType::u32, {}, 4.0},
    {"attention.head_count_kv", "attn_config.kv_n_heads"},
    {"attention.layer_norm_epsilon", "", KeyType::f32, otherwise(1e-5)},
    {"attention.clamp_kqv", "attn_config.clip_qkv", KeyType::f32},
    {"attention.max_alibi_bias", "attn_config.alibi_bias_max", KeyType::f32, otherwise(8)},
};

// The bias of distances is off where the config says so.
Result<> finish_mpt(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto has_bias, draft.config.flag({"attn_config.alibi"}));
  if (!has_bias.value_or(false)) draft.builder.set(draft.key("attention.max_alibi_bias"), 0.0f);
  return {};
}

constexpr TensorRule kStarcoder2Rules[] = {
    {"model.layers.{i}.mlp.c_fc.{}", "blk.{i}.ffn_up.{}"},
    {"model.layers.{i}.mlp.c_proj.{}", "blk.{i}.ffn_down.{}"},
};

constexpr KeyRow kStarcoder2Keys[] = {
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(2)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
};

constexpr ModelClass kGptClasses[] = {
    {.names = "GPT2LMHeadModel",
     .architecture = "gpt2",
     .rules = kGpt2Rules,
     .keys = kGpt2Keys,
     .shared_rules = kGptRules,
     .is_decoder = false,
     .prefix = "transformer."},
    {.names = "GPTNeoXForCausalLM",
     .architecture = "gptneox",
     .rules = kGptNeoXRules,
     .keys = kGptNeoXKeys,
     .is_decoder = false},
    {.names = "FalconForCausalLM",
     .architecture = "falcon",
     .rules = kFalconRules,
     .keys = kFalconKeys,
     .is_decoder = false,
     .prefix = "transformer."},
    {.names = "BloomForCausalLM BloomModel",
     .architecture = "bloom",
     .rules = kBloomRules,
     .keys = kBloomKeys,
     .is_decoder = false,
     .prefix = "transformer."},
    {.names = "MPTForCausalLM MptForCausalLM",
     .architecture = "mpt",
     .rules = kMptRules,
     .keys = kMptKeys,
     .is_decoder = false,
     .prefix = "transformer.",
     .finish = finish_mpt},
    {.names = "Starcoder2ForCausalLM",
     .architecture = "starcoder2",
     .rules = kStarcoder2Rules,
     .keys = kStarcoder2Keys},
};

}  // namespace

std::span<const ModelClass> gpt_classes() { return kGptClasses; }

}  // namespace tessera::convert
