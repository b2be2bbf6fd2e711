#include "tessera/server/api/openai_embedding.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/embedding_input.h"
#include "tessera/server/api/embedding_task.h"
#include "tessera/server/api/generation_task.h"
#include "tessera/server/json/field_reader.h"

namespace tessera::server {

namespace {

std::string write_embeddings(EmbeddingResults& results, const VectorForm& form, std::string_view model) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("model", model).member("object", "list").key("usage").begin_object();
  writer.member("prompt_tokens", results.n_tokens).member("total_tokens", results.n_tokens).end_object();
  writer.key("data").begin_array();
  for (size_t i = 0; i < results.values.size(); ++i) {
    writer.begin_object().key("embedding");
    write_vector(writer, shape_vector(results.values[i], form), form);
    writer.member("index", i).member("object", "embedding").end_object();
  }
  writer.end_array().end_object();
  return answer;
}

}  // namespace

FieldResult<> start_openai_embedding(ApiContext& context, ServedModel& model,
                                     const std::shared_ptr<Exchange>& exchange) {
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  TESSERA_READ(require_embeddings(model));
  if (model.embedder()->use().pooling == nn::Pooling::none)
    return std::unexpected(FieldError{
        .message =
            "The pooling 'none' has no vector for a text: use POST /embedding, or start with another --pooling"});
  constexpr std::string_view kOwn[] = {"input", "encoding_format", "dimensions", "embd_normalize", "user"};
  auto read = read_generation_fields(reader->json(), context.defaults_of(model),
                                     generation_limits(context, model, exchange->request().client), kOwn);
  if (!read) return forward_error(read);
  auto form = read_vector_form(context, *reader);
  if (!form) return forward_error(form);
  const auto dimensions = reader->integer("dimensions", 1, model.facts().n_embd);
  if (!dimensions) return std::unexpected(dimensions.error());
  form->dimensions = *dimensions;
  const Json* input = reader->find("input");
  if (input == nullptr) return refuse_field(reader->path_of("input"), "missing");
  auto texts = read_embedding_texts(model, *input, "input");
  if (!texts) return forward_error(texts);
  return start_embedding(
      context, model, exchange,
      {.texts = std::move(*texts), .fields = std::move(read->fields), .ignored = std::move(read->ignored)},
      [form = *form, name = model.facts().id](EmbeddingResults& results) {
        return write_embeddings(results, form, name);
      });
}

}  // namespace tessera::server
