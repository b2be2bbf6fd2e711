// Encoders: BERT, RoBERTa, nomic-embed and ModernBERT.
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/output_labels.h"
#include "tessera/convert/source/views.h"
#include "tessera/gguf/keys.h"

namespace tessera::convert {

namespace {

// RoBERTa numbers positions from pad_token_id + 1 on, so the rows before are unused.
Result<TensorPieces> rows_after_padding(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const auto padding, facts.config->integer({"pad_token_id"}, 0, INT32_MAX - 1));
  const int64_t n_cut = padding.value_or(1) + 1, n_rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  TESSERA_ASSIGN(StoredTensor view, part_of(tensor, 0, n_cut, n_rows - n_cut));
  std::vector<int64_t> shape = view.shape;
  return TensorPieces{{std::move(view)}, std::move(shape)};
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

/// Modes of 1_Pooling/config.json, and their numbers in GGUF.
struct PoolingMode {
  const char* name;
  uint32_t number;
};
constexpr PoolingMode kPoolingModes[] = {
    {"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};

// The way from the embeddings of tokens to that of a text, which modules.json may name.
Result<> add_pooling(ModelDraft& draft) {
  const Checkpoint& checkpoint = draft.checkpoint;
  TESSERA_ASSIGN(const JsonTree modules, checkpoint.read_json_file("modules.json"));
  if (!modules || !modules->is_array()) return {};
  for (const Json& module : *modules) {
    if (!module.is_object() || module.value("type", Json()) != "sentence_transformers.models.Pooling") continue;
    const Json path = module.value("path", Json());
    if (!path.is_string() || !is_plain_name(path.get_ref<const std::string&>()))
      return fail(ErrorCode::format, "{}/modules.json: path of the pooling, want the name of a folder",
                  checkpoint.folder());
    const std::string file = path.get<std::string>() + "/config.json";
    TESSERA_ASSIGN(const JsonTree config, checkpoint.read_json_file(file));
    if (!config || !config->is_object()) return {};
    for (const PoolingMode& mode : kPoolingModes) {
      if (config->value(mode.name, Json(false)) != true) continue;
      draft.builder.set(draft.key("pooling_type"), mode.number);
      return {};
    }
    return fail(ErrorCode::unsupported, "{}/{}: pooling is neither of mean, cls and last token", checkpoint.folder(),
                file);
  }
  return {};
}

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

constexpr ModelClass kBertClasses[] = {
    {.names = "BertModel BertForMaskedLM BertForSequenceClassification",
     .architecture = "bert",
     .rules = kBertRules,
     .keys = kBertKeys,
     .is_decoder = false,
     .prefix = "bert.",
     .scaling = RopeScaling::none,
     .finish = finish_encoder},
    {.names = "RobertaModel RobertaForMaskedLM RobertaForSequenceClassification XLMRobertaModel "
              "XLMRobertaForSequenceClassification",
     .architecture = "bert",
     .rules = kRobertaRules,
     .keys = kBertKeys,
     .shared_rules = kBertRules,
     .is_decoder = false,
     .prefix = "roberta.",
     .scaling = RopeScaling::none,
     .finish = finish_encoder},
    {.names = "NomicBertModel",
     .architecture = "nomic-bert",
     .rules = kNomicRules,
     .keys = kNomicKeys,
     .is_decoder = false,
     .prefix = "bert.",
     .scaling = RopeScaling::none,
     .finish = finish_encoder},
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
