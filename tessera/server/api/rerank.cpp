#include "tessera/server/api/rerank.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "tessera/engine/embedding.h"
#include "tessera/server/api/embedding_input.h"
#include "tessera/server/api/embedding_task.h"
#include "tessera/server/api/generation_task.h"
#include "tessera/server/json/field_reader.h"

namespace tessera::server {

namespace {

struct RerankForm {
  bool is_of_texts = false;          // TEI's form
  std::vector<std::string> texts{};  // kept for the answer if it has them
  size_t n_most = 0;                 // of results
  std::string model{};
};

// Indices of the best documents, the best first.
std::vector<size_t> ranking(const std::vector<std::vector<float>>& scores, size_t n_most) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return scores[i].front(); });
  order.resize(std::min(order.size(), n_most));
  return order;
}

std::string write_texts_answer(const EmbeddingResults& results, const RerankForm& form) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_array();
  for (const size_t i : ranking(results.values, form.n_most)) {
    writer.begin_object().member("index", i).member("score", results.values[i].front());
    if (!form.texts.empty()) writer.member("text", form.texts[i]);
    writer.end_object();
  }
  writer.end_array();
  return answer;
}

std::string write_documents_answer(const EmbeddingResults& results, const RerankForm& form) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("model", form.model).member("object", "list").key("usage").begin_object();
  writer.member("prompt_tokens", results.n_tokens).member("total_tokens", results.n_tokens).end_object();
  writer.key("results").begin_array();
  for (const size_t i : ranking(results.values, form.n_most))
    writer.begin_object().member("index", i).member("relevance_score", results.values[i].front()).end_object();
  writer.end_array().end_object();
  return answer;
}

FieldResult<std::vector<std::vector<int32_t>>> pairs_of(const ServedModel& model, std::string_view query,
                                                        const std::vector<std::string>& documents,
                                                        const FieldPath& path) {
  std::vector<std::vector<int32_t>> pairs;
  for (size_t i = 0; i < documents.size(); ++i) {
    auto tokens = rank_tokens(model.engine(), query, documents[i]);
    if (!tokens) return std::unexpected(field_error_of(tokens.error(), path.at(i).text()));
    if (tokens->empty()) return refuse_field(path.at(i), "no tokens, want at least one");
    TESSERA_READ(require_fit(model, std::ssize(*tokens)));
    pairs.push_back(std::move(*tokens));
  }
  return pairs;
}

}  // namespace

FieldResult<> start_rerank(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange) {
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  TESSERA_READ(require_scores(model));
  constexpr std::string_view kOwn[] = {"query", "documents", "texts", "top_n", "return_text"};
  auto read = read_generation_fields(reader->json(), context.defaults_of(model),
                                     generation_limits(context, model, exchange->request().client), kOwn);
  if (!read) return forward_error(read);
  const auto query = reader->required_text("query");
  if (!query) return std::unexpected(query.error());
  RerankForm form{.is_of_texts = reader->find("documents") == nullptr && reader->find("texts") != nullptr,
                  .model = model.facts().id};
  const std::string_view field = form.is_of_texts ? "texts" : "documents";
  auto documents = reader->texts(field, kMaxEmbeddedTexts, SIZE_MAX);
  if (!documents) return forward_error(documents);
  if (!*documents) return refuse_field(reader->path_of(field), "missing");
  if ((*documents)->empty()) return refuse_field(reader->path_of(field), "an empty list, want at least one text");
  const auto top_n = reader->integer("top_n", 1, std::numeric_limits<int32_t>::max());
  if (!top_n) return std::unexpected(top_n.error());
  form.n_most = static_cast<size_t>(top_n->value_or(std::ssize(**documents)));
  const auto returns_text = reader->boolean("return_text");
  if (!returns_text) return std::unexpected(returns_text.error());
  auto pairs = pairs_of(model, *query, **documents, reader->path_of(field));
  if (!pairs) return forward_error(pairs);
  if (form.is_of_texts && returns_text->value_or(false)) form.texts = std::move(**documents);
  return start_embedding(context, model, exchange,
                         {.texts = std::move(*pairs),
                          .wants_scores = true,
                          .fields = std::move(read->fields),
                          .ignored = std::move(read->ignored)},
                         [form = std::move(form)](EmbeddingResults& results) {
                           return form.is_of_texts ? write_texts_answer(results, form)
                                                   : write_documents_answer(results, form);
                         });
}

}  // namespace tessera::server
