// Encoders: BERT, RoBERTa, Jina, nomic-embed, ModernBERT, EuroBERT and NeoBERT.
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/output_labels.h"
#include "tessera/convert/checkpoints/pieces.h"
#include "tessera/convert/checkpoints/pooling.h"
#include "tessera/convert/checkpoints/qkv_pieces.h"
#include "tessera/convert/source/views.h"
#include "tessera/gguf/keys.h"

namespace tessera::convert {

namespace {

// RoBERTa numbers positions from pad_token_id + 1 on, so those before are unused.
Result<int64_t> unused_positions(const HubConfig& config) {
  TESSERA_ASSIGN(const auto padding, config.integer({"pad_token_id"}, 0, INT32_MAX - 1));
  return padding.value_or(1) + 1;
}

Result<TensorPieces> rows_after_padding(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const int64_t n_cut, unused_positions(*facts.config));
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  TESSERA_ASSIGN(StoredTensor view, part_of(tensor, 0, n_cut, n_rows - n_cut));
  return one_view(std::move(view));
}

constexpr TensorRule kRobertaRules[] = {
    {"embeddings.position_embeddings.weight", "position_embd.weight", Change::same, rows_after_padding},
    {"classifier.dense.{}", "cls.{}"},
    {"classifier.out_proj.{}", "cls.output.{}"},
};

constexpr TensorRule kBertRules[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight"},
    {"embeddings.position_embeddings.weight", "position_embd.weight"},
    {"embeddings.token_type_embeddings.weight", "token_types.weight"},
    {"embeddings.position_ids", "", Change::drop},
    {"embeddings.LayerNorm.{}", "token_embd_norm.{}"},
    {"embeddings.LayerNorm.gamma", "token_embd_norm.weight"},
    {"embeddings.LayerNorm.beta", "token_embd_norm.bias"},
    {"encoder.layer.{i}.attention.self.query.{}", "blk.{i}.attn_q.{}"},
    {"encoder.layer.{i}.attention.self.key.{}", "blk.{i}.attn_k.{}"},
    {"encoder.layer.{i}.attention.self.value.{}", "blk.{i}.attn_v.{}"},
    {"encoder.layer.{i}.attention.output.dense.{}", "blk.{i}.attn_output.{}"},
    {"encoder.layer.{i}.attention.output.LayerNorm.{}", "blk.{i}.attn_output_norm.{}"},
    {"encoder.layer.{i}.attention.output.LayerNorm.gamma", "blk.{i}.attn_output_norm.weight"},
    {"encoder.layer.{i}.attention.output.LayerNorm.beta", "blk.{i}.attn_output_norm.bias"},
    {"encoder.layer.{i}.intermediate.dense.{}", "blk.{i}.ffn_up.{}"},
    {"encoder.layer.{i}.output.dense.{}", "blk.{i}.ffn_down.{}"},
    {"encoder.layer.{i}.output.LayerNorm.{}", "blk.{i}.layer_output_norm.{}"},
    {"encoder.layer.{i}.output.LayerNorm.gamma", "blk.{i}.layer_output_norm.weight"},
    {"encoder.layer.{i}.output.LayerNorm.beta", "blk.{i}.layer_output_norm.bias"},
    {"pooler.dense.{}", "", Change::drop},
    {"classifier.{}", "cls.output.{}"},
    {"cls.predictions.bias", "", Change::drop},
    {"cls.predictions.decoder.{}", "", Change::drop},
    {"cls.predictions.transform.dense.{}", "", Change::drop},
    {"cls.predictions.transform.LayerNorm.{}", "", Change::drop},
    {"cls.predictions.transform.LayerNorm.gamma", "", Change::drop},
    {"cls.predictions.transform.LayerNorm.beta", "", Change::drop},
    {"cls.seq_relationship.{}", "", Change::drop},
    {"lm_head.bias", "", Change::drop},
    {"lm_head.dense.{}", "", Change::drop},
    {"lm_head.layer_norm.{}", "", Change::drop},
    {"lm_head.decoder.{}", "", Change::drop},
};

// Gate and up of the first models are one matrix, as GGUF has them. In models of code up comes first.
constexpr TensorRule kJinaBert2Rules[] = {
    {"encoder.layer.{i}.attention.self.layer_norm_q.{}", "blk.{i}.attn_q_norm.{}"},
    {"encoder.layer.{i}.attention.self.layer_norm_k.{}", "blk.{i}.attn_k_norm.{}"},
    {"encoder.layer.{i}.mlp.gated_layers.weight", "blk.{i}.ffn_up.weight"},
    {"encoder.layer.{i}.mlp.wo.{}", "blk.{i}.ffn_down.{}"},
    {"encoder.layer.{i}.mlp.layernorm.{}", "blk.{i}.layer_output_norm.{}"},
    {"encoder.layer.{i}.mlp.up_gated_layer.weight", "blk.{i}.ffn_up.weight", Change::first_half},
    {"encoder.layer.{i}.mlp.up_gated_layer.weight", "blk.{i}.ffn_gate.weight", Change::second_half},
    {"encoder.layer.{i}.mlp.down_layer.{}", "blk.{i}.ffn_down.{}"},
    {"encoder.layer.{i}.layer_norm_1.{}", "blk.{i}.attn_norm_2.{}"},
    {"encoder.layer.{i}.layer_norm_2.{}", "blk.{i}.layer_output_norm.{}"},
};

// Matrices are "original" beside their adapters for tasks, which are not part of the result.
constexpr TensorRule kJinaBert3Rules[] = {
    {"embeddings.word_embeddings.parametrizations.weight.original", "token_embd.weight"},
    {"embeddings.word_embeddings.parametrizations.weight.0.*", "", Change::drop},
    {"embeddings.token_type_embeddings.parametrizations.weight.original", "token_types.weight"},
    {"embeddings.token_type_embeddings.parametrizations.weight.0.*", "", Change::drop},
    {"emb_ln.{}", "token_embd_norm.{}"},
    {"encoder.layers.{i}.mixer.Wqkv.parametrizations.weight.original", "blk.{i}.attn_qkv.weight"},
    {"encoder.layers.{i}.mixer.Wqkv.parametrizations.weight.0.*", "", Change::drop},
    {"encoder.layers.{i}.mixer.Wqkv.bias", "blk.{i}.attn_qkv.bias"},
    {"encoder.layers.{i}.mixer.out_proj.parametrizations.weight.original", "blk.{i}.attn_output.weight"},
    {"encoder.layers.{i}.mixer.out_proj.parametrizations.weight.0.*", "", Change::drop},
    {"encoder.layers.{i}.mixer.out_proj.bias", "blk.{i}.attn_output.bias"},
    {"encoder.layers.{i}.mlp.fc1.parametrizations.weight.original", "blk.{i}.ffn_up.weight"},
    {"encoder.layers.{i}.mlp.fc1.parametrizations.weight.0.*", "", Change::drop},
    {"encoder.layers.{i}.mlp.fc1.bias", "blk.{i}.ffn_up.bias"},
    {"encoder.layers.{i}.mlp.fc2.parametrizations.weight.original", "blk.{i}.ffn_down.weight"},
    {"encoder.layers.{i}.mlp.fc2.parametrizations.weight.0.*", "", Change::drop},
    {"encoder.layers.{i}.mlp.fc2.bias", "blk.{i}.ffn_down.bias"},
    {"encoder.layers.{i}.norm1.{}", "blk.{i}.attn_output_norm.{}"},
    {"encoder.layers.{i}.norm2.{}", "blk.{i}.layer_output_norm.{}"},
    {"pooler.*", "", Change::drop},
};

Result<bool> has_task_adapters(const HubConfig& config) {
  const Json* const names = config.find({"lora_adaptations"});
  return names != nullptr && names->is_array() && !names->empty();
}

constexpr KeyRow kBertKeys[] = {
    {"attention.head_count_kv", ""},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-12)},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
};

constexpr TensorRule kNomicRules[] = {
    {"emb_ln.{}", "token_embd_norm.{}"},
    {"embeddings.word_embeddings.weight", "token_embd.weight"},
    {"embeddings.token_type_embeddings.weight", "token_types.weight"},
    {"encoder.layers.{i}.attn.Wqkv.{}", "blk.{i}.attn_qkv.{}"},
    {"encoder.layers.{i}.attn.out_proj.{}", "blk.{i}.attn_output.{}"},
    {"encoder.layers.{i}.mlp.fc11.{}", "blk.{i}.ffn_up.{}"},
    {"encoder.layers.{i}.mlp.fc12.{}", "blk.{i}.ffn_gate.{}"},
    {"encoder.layers.{i}.mlp.fc2.{}", "blk.{i}.ffn_down.{}"},
    {"encoder.layers.{i}.norm1.{}", "blk.{i}.attn_output_norm.{}"},
    {"encoder.layers.{i}.norm2.{}", "blk.{i}.layer_output_norm.{}"},
};

// Experts are rows of one matrix. They share a bias, which GGUF has no place for.
Result<TensorPieces> nomic_experts(const StoredTensor& tensor, const RuleFacts& facts, bool is_transposed) {
  TESSERA_ASSIGN(const int64_t n, facts.config->require_integer({"num_local_experts", "num_experts"}, 1, INT32_MAX));
  return stack_of_rows(tensor, n, is_transposed);
}
Result<TensorPieces> nomic_up_experts(const StoredTensor& tensor, const RuleFacts& facts) {
  return nomic_experts(tensor, facts, false);
}
Result<TensorPieces> nomic_down_experts(const StoredTensor& tensor, const RuleFacts& facts) {
  return nomic_experts(tensor, facts, true);
}

constexpr TensorRule kNomicMoeRules[] = {
    {"encoder.layers.{i}.mlp.fc1.{}", "blk.{i}.ffn_up.{}"},
    {"encoder.layers.{i}.mlp.router.layer.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"encoder.layers.{i}.mlp.experts.mlp.w1", "blk.{i}.ffn_up_exps.weight", Change::same, nomic_up_experts},
    {"encoder.layers.{i}.mlp.experts.mlp.w2", "blk.{i}.ffn_down_exps.weight", Change::same, nomic_down_experts},
    {"encoder.layers.{i}.mlp.experts.bias", "", Change::drop},
};

Result<bool> has_nomic_experts(const HubConfig& config) {
  TESSERA_ASSIGN(const auto period, config.integer({"moe_every_n_layers"}, 0, INT32_MAX));
  return period.value_or(0) > 0;
}

constexpr KeyRow kNomicMoeKeys[] = {
    {"context_length", "n_positions", KeyType::u32, kRequired},
    {"moe_every_n_layers", "moe_every_n_layers", KeyType::u32, kRequired},
    {"expert_used_count", "moe_top_k", KeyType::u32, kRequired},
};

constexpr KeyRow kNomicKeys[] = {
    {"attention.head_count_kv", ""},
    {"context_length", "max_trained_positions", KeyType::u32, otherwise(2048)},
    {"rope.freq_base", "rotary_emb_base", KeyType::f32, otherwise(1000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-12)},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
};

constexpr TensorRule kModernBertRules[] = {
    {"embeddings.tok_embeddings.weight", "token_embd.weight"},
    {"embeddings.norm.weight", "token_embd_norm.weight"},
    {"final_norm.weight", "output_norm.weight"},
    {"layers.{i}.attn_norm.weight", "blk.{i}.attn_norm.weight"},
    {"layers.{i}.attn.Wqkv.weight", "blk.{i}.attn_qkv.weight"},
    {"layers.{i}.attn.Wo.weight", "blk.{i}.attn_output.weight"},
    {"layers.{i}.mlp_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"layers.{i}.mlp.Wi.weight", "blk.{i}.ffn_up.weight"},
    {"layers.{i}.mlp.Wo.weight", "blk.{i}.ffn_down.weight"},
    {"head.dense.weight", "cls.weight"},
    {"head.norm.weight", "cls.norm.weight"},
    {"classifier.{}", "cls.output.{}"},
    {"decoder.bias", "", Change::drop},
};

constexpr KeyRow kModernBertKeys[] = {
    {"attention.head_count_kv", ""},
    {"rope.freq_base", "*", KeyType::f32, otherwise(160000)},
    {"rope.freq_base_swa", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "layer_norm_eps norm_eps", KeyType::f32, otherwise(1e-5)},
    {"attention.layer_norm_rms_epsilon", "norm_eps", KeyType::f32},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
    {"attention.sliding_window", "local_attention", KeyType::u32, otherwise(128)},
    {"attention.sliding_window_pattern", "global_attn_every_n_layers", KeyType::u32, otherwise(3)},
    {"rope.scaling.type", "", KeyType::text, otherwise_text("none")},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"hidden_activation", "hidden_activation", KeyType::text},
};

constexpr TensorRule kLanguageHeadRules[] = {
    {"lm_head.weight", "", Change::drop},
};

constexpr KeyRow kEuroBertKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(250000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
    {"rope.scaling.type", "", KeyType::text, otherwise_text("none")},
};

constexpr TensorRule kNeoBertRules[] = {
    {"encoder.weight", "token_embd.weight"},
    {"layer_norm.weight", "enc.output_norm.weight"},
    {"transformer_encoder.{i}.attention_norm.weight", "blk.{i}.attn_norm.weight"},
    {"transformer_encoder.{i}.qkv.weight", "blk.{i}.attn_qkv.weight", Change::same, qkv_of_each_head},
    {"transformer_encoder.{i}.wo.weight", "blk.{i}.attn_output.weight"},
    {"transformer_encoder.{i}.ffn_norm.weight", "blk.{i}.ffn_norm.weight"},
    {"transformer_encoder.{i}.ffn.w12.weight", "blk.{i}.ffn_up.weight"},
    {"transformer_encoder.{i}.ffn.w3.weight", "blk.{i}.ffn_down.weight"},
    {"dense.{}", "cls.{}"},
    {"classifier.{}", "cls.output.{}"},
    {"decoder.{}", "", Change::drop},
};

constexpr KeyRow kNeoBertKeys[] = {
    {"feed_forward_length", ""},
    {"attention.head_count_kv", ""},
    {"rope.freq_base", "", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "norm_eps", KeyType::f32, otherwise(1e-6)},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
    {"rope.scaling.type", "", KeyType::text, otherwise_text("none")},
};

// A classifier scores texts. Its outputs may have names.
Result<> finish_encoder(ModelDraft& draft) {
  TESSERA_TRY(add_pooling(draft));
  TESSERA_ASSIGN(const auto n_types, draft.config.integer({"type_vocab_size"}, 0, INT32_MAX));
  if (n_types) draft.builder.set(keys::kTokenTypeCount, static_cast<uint32_t>(*n_types));
  if (!draft.has_tensor("cls.output.weight")) return {};
  TESSERA_ASSIGN(const auto labels, output_labels_of(draft.config));
  if (labels) draft.builder.set_array(draft.key("classifier.output_labels"), *labels);
  return {};
}

// The first position of a text is the first one that is used.
Result<> finish_roberta(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto n_all, draft.config.integer({"max_position_embeddings"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const int64_t n_unused, unused_positions(draft.config));
  if (n_all && *n_all > n_unused)
    draft.builder.set(draft.key("context_length"), static_cast<uint32_t>(*n_all - n_unused));
  return finish_encoder(draft);
}

// The runtime knows norms after the parts of a layer, and rope of whole heads that pairs their halves.
Result<> finish_nomic(ModelDraft& draft) {
  const HubConfig& config = draft.config;
  TESSERA_ASSIGN(const auto norms_first, config.flag({"prenorm"}));
  TESSERA_ASSIGN(const auto pairs_neighbours, config.flag({"rotary_emb_interleaved"}));
  TESSERA_ASSIGN(const auto share, config.number({"rotary_emb_fraction"}));
  if (norms_first.value_or(false) || pairs_neighbours.value_or(false) || share.value_or(1.0) != 1.0)
    return fail(ErrorCode::unsupported,
                "{}: want prenorm false, rotary_emb_interleaved false and rotary_emb_fraction 1", config.path());
  return finish_encoder(draft);
}

// The model with experts was trained with texts of 512 tokens, though its config says 2048.
Result<> finish_nomic_moe(ModelDraft& draft) {
  constexpr uint32_t kTrained = 512;
  constexpr int64_t kStated = 2048;
  TESSERA_ASSIGN(const int64_t n, draft.config.require_integer({"n_positions"}, 1, INT32_MAX));
  if (n == kStated) draft.builder.set(draft.key("context_length"), kTrained);
  return finish_nomic(draft);
}

// The width is a part of intermediate_size, rounded. Texts are pooled by their first token.
Result<> finish_neo_bert(ModelDraft& draft) {
  constexpr uint32_t kFirstToken = 2;
  const int64_t n = draft.rows_of("blk.0.ffn_up.weight") / 2;
  if (n > 0 && n <= INT32_MAX) draft.builder.set(draft.key("feed_forward_length"), static_cast<uint32_t>(n));
  draft.builder.set(draft.key("pooling_type"), kFirstToken);
  return finish_encoder(draft);
}

constexpr ModelClass kBertClasses[] = {
    {.names = "BertModel BertForMaskedLM BertForSequenceClassification",
     .architecture = "bert",
     .rules = kBertRules,
     .keys = kBertKeys,
     .is_decoder = false,
     .prefix = "bert.",
     .scaling = RopeScaling::none,
     .finish = finish_encoder},
    {.names = "JinaBertModel JinaBertForMaskedLM",
     .architecture = "jina-bert-v2",
     .rules = kJinaBert2Rules,
     .keys = kBertKeys,
     .shared_rules = kBertRules,
     .is_decoder = false,
     .prefix = "bert.",
     .scaling = RopeScaling::none,
     .finish = finish_encoder},
    {.names = "XLMRobertaModel",
     .architecture = "jina-bert-v3",
     .rules = kJinaBert3Rules,
     .keys = kBertKeys,
     .is_decoder = false,
     .prefix = "roberta.",
     .scaling = RopeScaling::none,
     .fits = has_task_adapters,
     .finish = finish_roberta},
    {.names = "RobertaModel RobertaForMaskedLM RobertaForSequenceClassification XLMRobertaModel "
              "XLMRobertaForSequenceClassification",
     .architecture = "bert",
     .rules = kRobertaRules,
     .keys = kBertKeys,
     .shared_rules = kBertRules,
     .is_decoder = false,
     .prefix = "roberta.",
     .scaling = RopeScaling::none,
     .finish = finish_roberta},
    {.names = "NomicBertModel",
     .architecture = "nomic-bert-moe",
     .rules = kNomicMoeRules,
     .keys = kNomicMoeKeys,
     .shared_rules = kNomicRules,
     .shared_keys = kNomicKeys,
     .is_decoder = false,
     .prefix = "bert.",
     .scaling = RopeScaling::none,
     .fits = has_nomic_experts,
     .finish = finish_nomic_moe},
    {.names = "NomicBertModel",
     .architecture = "nomic-bert",
     .rules = kNomicRules,
     .keys = kNomicKeys,
     .is_decoder = false,
     .prefix = "bert.",
     .scaling = RopeScaling::none,
     .finish = finish_nomic},
    {.names = "EuroBertModel EuroBertForMaskedLM",
     .architecture = "eurobert",
     .rules = kLanguageHeadRules,
     .keys = kEuroBertKeys,
     .scaling = RopeScaling::none,
     .finish = finish_encoder},
    {.names = "NeoBERT NeoBERTLMHead NeoBERTForSequenceClassification",
     .architecture = "neo-bert",
     .rules = kNeoBertRules,
     .keys = kNeoBertKeys,
     .is_decoder = false,
     .prefix = "model.",
     .scaling = RopeScaling::none,
     .finish = finish_neo_bert},
    {.names = "ModernBertModel ModernBertForMaskedLM ModernBertForSequenceClassification",
     .architecture = "modern-bert",
     .rules = kModernBertRules,
     .keys = kModernBertKeys,
     .is_decoder = false,
     .prefix = "model.",
     .scaling = RopeScaling::none,
     .finish = finish_encoder},
};

}  // namespace

std::span<const ModelClass> bert_classes() { return kBertClasses; }

}  // namespace tessera::convert
