#include "tessera/server/api/ollama_embed.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/ollama_format.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/reader.h"

namespace tessera::server {

namespace {

constexpr size_t kMaxEmbeddedTexts = 2048;

FieldResult<std::vector<std::string>> read_input(const FieldReader& reader) {
  const Json* input = reader.find("input");
  if (input == nullptr) return refuse_field(reader.path_of("input"), "missing");
  if (input->is_string()) return std::vector{input->get<std::string>()};
  return read_texts(*input, reader.path_of("input"), kMaxEmbeddedTexts, SIZE_MAX);
}

FieldResult<> start_embedding(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                              OllamaEmbedForm form) {
  auto body = read_json(exchange->take_body());
  if (!body) return forward_error(body);
  auto reader = FieldReader::create(*body);
  if (!reader) return forward_error(reader);
  const auto name = reader->text("model");
  if (!name) return std::unexpected(name.error());
  OllamaEmbedCall call{.form = form, .model = shown_ollama_name(model, name->value_or(""))};
  if (form == OllamaEmbedForm::one) {
    const auto prompt = reader->required_text("prompt");
    if (!prompt) return std::unexpected(prompt.error());
    call.texts.emplace_back(*prompt);
  } else {
    auto texts = read_input(*reader);
    if (!texts) return forward_error(texts);
    call.texts = std::move(*texts);
  }
  const auto truncates = reader->boolean("truncate");
  if (!truncates) return std::unexpected(truncates.error());
  call.truncates = truncates->value_or(true);
  const auto dimensions = reader->integer("dimensions", 1, model.facts().n_embd);
  if (!dimensions) return std::unexpected(dimensions.error());
  call.dimensions = *dimensions;
  return compute_ollama_embeddings(context, model, exchange, std::move(call));
}

}  // namespace

FieldResult<> compute_ollama_embeddings(ApiContext&, ServedModel&, const std::shared_ptr<Exchange>&,
                                        OllamaEmbedCall call) {
  return std::unexpected(
      FieldError{.status = 501,
                 .type = "not_supported_error",
                 .message = "\"" + call.model + "\" does not support embeddings on this server yet"});
}

FieldResult<> start_ollama_embed(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange) {
  return start_embedding(context, model, exchange, OllamaEmbedForm::list);
}

FieldResult<> start_ollama_embeddings(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange) {
  return start_embedding(context, model, exchange, OllamaEmbedForm::one);
}

}  // namespace tessera::server
