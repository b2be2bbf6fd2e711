// Qwen 2 and 3, dense and with experts.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/output_labels.h"
#include "tessera/convert/model_card.h"
#include "tessera/convert/source/views.h"
#include "tessera/gguf/keys.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kRankPooling = 4;

constexpr TensorRule kQwenRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr TensorRule kScoreRules[] = {
    {"score.weight", "cls.output.weight"},
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

// A question to a reranker, as its model card states it. The server fills in {query} and {document}.
constexpr std::string_view kRerankTemplate =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. "
    "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search "
    "query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

const Json* member_of(const Json* object, std::string_view name) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto member = object->find(name);
  return member == object->end() ? nullptr : &*member;
}

// tokenizer.json has some 10 MB, so it is read once for all words.
Result<std::vector<int64_t>> ids_of_words(const ModelDraft& draft, std::span<const char* const> words) {
  TESSERA_ASSIGN(const JsonTree tokenizer, draft.checkpoint.read_json_file("tokenizer.json"));
  const Json* const vocabulary = member_of(member_of(tokenizer.get(), "model"), "vocab");
  std::vector<int64_t> ids;
  for (const char* const word : words) {
    const Json* const id = member_of(vocabulary, word);
    if (id == nullptr || !id->is_number_unsigned() || *id > INT32_MAX)
      return fail(ErrorCode::not_found, "{}/tokenizer.json: no token {}, which a reranker answers with",
                  draft.checkpoint.folder(), word);
    ids.push_back(id->get<int64_t>());
  }
  return ids;
}

void set_rerank_template(ModelDraft& draft) {
  draft.builder.set(std::string(keys::kChatTemplate) + ".rerank", kRerankTemplate);
}

// A reranker is a model whose answer is "yes" or "no", so the rows of these two are all that is wanted of its head.
Result<> make_reranker(ModelDraft& draft) {
  const char* const words[] = {"yes", "no"};
  const auto name = draft.has_tensor("output.weight") ? "output.weight" : "token_embd.weight";
  const auto head = std::ranges::find(draft.tensors, name, &ConvertedTensor::name);
  if (head == draft.tensors.end())
    return fail(ErrorCode::not_found, "{}: no head, of which a reranker has two rows", draft.checkpoint.folder());
  ConvertedTensor answers{.name = "cls.output.weight", .shape = head->shape};
  answers.shape[0] = std::ssize(words);
  TESSERA_ASSIGN(const std::vector<int64_t> ids, ids_of_words(draft, words));
  for (const int64_t id : ids) {
    TESSERA_ASSIGN(StoredTensor row, part_of(head->parts[0].view, 0, id, 1));
    answers.parts.push_back({head->parts[0].file, std::move(row)});
  }
  std::erase_if(draft.tensors, [](const ConvertedTensor& tensor) { return tensor.name == "output.weight"; });
  draft.tensors.push_back(std::move(answers));
  draft.builder.set(draft.key("pooling_type"), kRankPooling);
  draft.builder.set_array(draft.key("classifier.output_labels"), words);
  set_rerank_template(draft);
  return {};
}

// The labels of n rows of a head. Libraries leave out the names that they make themselves.
Result<std::vector<std::string>> labels_of_head(const HubConfig& config, int64_t n) {
  TESSERA_ASSIGN(auto labels, output_labels_of(config));
  if (labels && std::ssize(*labels) != n)
    return fail(ErrorCode::mismatch, "{}: id2label: {} labels for {} rows of score.weight", config.path(),
                labels->size(), n);
  if (labels) return std::move(*labels);
  std::vector<std::string> made;
  for (int64_t i = 0; i < n; ++i) made.push_back("LABEL_" + std::to_string(i));
  return made;
}

// The model computes shares of all labels, which must sum to 1.
Result<> require_shares(const HubConfig& config) {
  TESSERA_ASSIGN(const auto problem, config.text({"problem_type"}));
  if (!problem || *problem == "single_label_classification") return {};
  return fail(ErrorCode::unsupported, "{}: problem_type is {}, want single_label_classification", config.path(),
              text::quote_text(*problem));
}

// A score alone is a logit. Its share beside a row of zeros is its sigmoid.
void add_row_of_zeros(const Checkpoint& checkpoint, ConvertedTensor& score) {
  std::vector<float> rows = stored_floats(checkpoint, score);
  const auto n = std::ssize(rows);
  rows.resize(rows.size() * 2);
  score = computed_tensor(std::move(score.name), std::move(rows));
  score.shape = {2, n};
}

// A classifier has a head of its own, of one row per label. One without it is a reranker.
Result<> finish_classifier(ModelDraft& draft) {
  constexpr int64_t kMostLabels = 1 << 20, kMostColumns = 1 << 20;
  const auto score = std::ranges::find(draft.tensors, "cls.output.weight", &ConvertedTensor::name);
  if (score == draft.tensors.end()) return make_reranker(draft);
  const std::vector<int64_t>& shape = score->shape;
  if (shape.size() != 2 || std::min(shape[0], shape[1]) < 1 || shape[0] > kMostLabels || shape[1] > kMostColumns)
    return fail(ErrorCode::mismatch, "{}: score.weight: its shape is that of no head", draft.checkpoint.folder());
  TESSERA_ASSIGN(std::vector<std::string> labels, labels_of_head(draft.config, shape[0]));
  if (labels.size() == 1) {
    add_row_of_zeros(draft.checkpoint, *score);
    labels.push_back("not " + labels[0]);
    TESSERA_ASSIGN(const auto card, draft.checkpoint.read_text("README.md", kMaxCardBytes));
    if (card && card->find("Qwen3-Reranker") != std::string::npos) set_rerank_template(draft);
  } else {
    TESSERA_TRY(require_shares(draft.config));
  }
  draft.builder.set(draft.key("pooling_type"), kRankPooling);
  draft.builder.set_array(draft.key("classifier.output_labels"), labels);
  return {};
}

// Rerankers have the class of other models. Only their card tells them apart.
Result<> finish_qwen3(ModelDraft& draft) {
  TESSERA_ASSIGN(const std::optional<std::string> card, draft.checkpoint.read_text("README.md", kMaxCardBytes));
  const bool is_reranker = card && ("\n" + *card).find("\n# Qwen3-Reranker") != std::string::npos;
  return is_reranker ? make_reranker(draft) : Result<>();
}

constexpr ModelClass kQwenClasses[] = {
    {.names = "Qwen2ForCausalLM", .architecture = "qwen2", .rules = {}, .keys = kQwen2Keys},
    {.names = "Qwen2MoeForCausalLM", .architecture = "qwen2moe", .rules = kQwenRules, .keys = kQwen2MoeKeys},
    {.names = "Qwen3ForCausalLM",
     .architecture = "qwen3",
     .rules = kQwenRules,
     .keys = kQwen3Keys,
     .finish = finish_qwen3},
    {.names = "Qwen3ForSequenceClassification",
     .architecture = "qwen3",
     .rules = kScoreRules,
     .keys = kQwen3Keys,
     .shared_rules = kQwenRules,
     .finish = finish_classifier},
    {.names = "Qwen3MoeForCausalLM", .architecture = "qwen3moe", .rules = kQwenRules, .keys = kQwen2MoeKeys},
};

}  // namespace

std::span<const ModelClass> qwen_classes() { return kQwenClasses; }

}  // namespace tessera::convert
