// InternLM 2 and Baichuan: q, k and v in one matrix, with the rows of Llama.
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/qkv_pieces.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kInternLm2Rules[] = {
    {"model.tok_embeddings.weight", "token_embd.weight"},
    {"output.weight", "output.weight"},
    {"model.layers.{i}.attention_norm.weight", "blk.{i}.attn_norm.weight"},
    {"model.layers.{i}.attention.wqkv.{}", "blk.{i}.attn_q.{}", Change::same, q_of_groups_in_pairs},
    {"model.layers.{i}.attention.wqkv.{}", "blk.{i}.attn_k.{}", Change::same, k_of_groups_in_pairs},
    {"model.layers.{i}.attention.wqkv.{}", "blk.{i}.attn_v.{}", Change::same, v_of_groups},
    {"model.layers.{i}.attention.wo.{}", "blk.{i}.attn_output.{}"},
    {"model.layers.{i}.ffn_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.feed_forward.w1.weight", "blk.{i}.ffn_gate.weight"},
    {"model.layers.{i}.feed_forward.w2.weight", "blk.{i}.ffn_down.weight"},
    {"model.layers.{i}.feed_forward.w3.weight", "blk.{i}.ffn_up.weight"},
};

constexpr KeyRow kInternLm2Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
};

constexpr TensorRule kBaichuanRules[] = {
    {"model.layers.{i}.self_attn.W_pack.weight", "blk.{i}.attn_q.weight", Change::same, q_of_qkv_in_pairs},
    {"model.layers.{i}.self_attn.W_pack.weight", "blk.{i}.attn_k.weight", Change::same, k_of_qkv_in_pairs},
    {"model.layers.{i}.self_attn.W_pack.weight", "blk.{i}.attn_v.weight", Change::same, v_of_qkv},
};

constexpr KeyRow kBaichuanKeys[] = {
    {"context_length", "max_sequence_length max_position_embeddings model_max_length", KeyType::u32, kRequired},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"rope.dimension_count", "=head_size"},
};

// Baichuan 2 normalizes the rows of its output layer when it is used.
Result<> refuse_baichuan2(ModelDraft& draft) {
  constexpr int64_t kVocabulary2 = 125696;
  TESSERA_ASSIGN(const auto n, draft.config.integer({"vocab_size"}, 0, INT32_MAX));
  if (n != kVocabulary2) return {};
  return fail(ErrorCode::unsupported, "{}: Baichuan 2 normalizes its output layer when it is used, want Baichuan 1",
              draft.config.path());
}

constexpr ModelClass kInternLmClasses[] = {
    {.names = "InternLM2ForCausalLM", .architecture = "internlm2", .rules = kInternLm2Rules, .keys = kInternLm2Keys},
    {.names = "BaichuanForCausalLM BaiChuanForCausalLM",
     .architecture = "baichuan",
     .rules = kBaichuanRules,
     .keys = kBaichuanKeys,
     .finish = refuse_baichuan2},
};

}  // namespace

std::span<const ModelClass> internlm_classes() { return kInternLmClasses; }

}  // namespace tessera::convert
