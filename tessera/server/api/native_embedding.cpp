#include "tessera/server/api/native_embedding.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/embedding_input.h"
#include "tessera/server/api/embedding_task.h"
#include "tessera/server/api/generation_task.h"
#include "tessera/server/json/field_reader.h"

namespace tessera::server {

namespace {

// A text has one vector, or one per token without pooling. The latter are not normalized.
std::string write_vector_lists(EmbeddingResults& results, const VectorForm& form, size_t n_embd, bool is_pooled) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_array();
  for (size_t i = 0; i < results.values.size(); ++i) {
    std::vector<float>& values = results.values[i];
    if (is_pooled) shape_vector(values, form);
    writer.begin_object().member("index", i).key("embedding").begin_array();
    for (size_t begin = 0; begin < values.size(); begin += n_embd)
      write_vector(writer, std::span<const float>(values).subspan(begin, n_embd), form);
    writer.end_array().end_object();
  }
  writer.end_array();
  return answer;
}

}  // namespace

FieldResult<> start_native_embedding(ApiContext& context, ServedModel& model,
                                     const std::shared_ptr<Exchange>& exchange) {
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  TESSERA_READ(require_embeddings(model));
  constexpr std::string_view kOwn[] = {"content", "input", "encoding_format", "embd_normalize"};
  auto read = read_generation_fields(reader->json(), context.defaults_of(model),
                                     generation_limits(context, model, exchange->request().client), kOwn);
  if (!read) return forward_error(read);
  auto form = read_vector_form(context, *reader);
  if (!form) return forward_error(form);
  const std::string_view field =
      reader->find("content") == nullptr && reader->find("input") != nullptr ? "input" : "content";
  const Json* content = reader->find(field);
  if (content == nullptr) return refuse_field(reader->path_of(field), "missing");
  auto texts = read_embedding_texts(model, *content, field);
  if (!texts) return forward_error(texts);
  const bool is_pooled = model.embedder()->use().pooling != nn::Pooling::none;
  return start_embedding(
      context, model, exchange,
      {.texts = std::move(*texts), .fields = std::move(read->fields), .ignored = std::move(read->ignored)},
      [form = *form, n_embd = static_cast<size_t>(model.facts().n_embd), is_pooled](EmbeddingResults& results) {
        return write_vector_lists(results, form, n_embd, is_pooled);
      });
}

}  // namespace tessera::server
