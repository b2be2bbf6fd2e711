#include "tessera/server/api/ollama_embed.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/embedding_input.h"
#include "tessera/server/api/embedding_task.h"
#include "tessera/server/api/ollama_format.h"
#include "tessera/server/json/field_reader.h"

namespace tessera::server {

namespace {

// Vectors of the older route are not normalized.
constexpr VectorForm kPlainVectors{.norm = -1};

struct OllamaEmbedCall {
  std::vector<std::string> texts{};
  std::string model{};    // the name in the answer
  bool truncates = true;  // a text beyond the context is cut; otherwise it is refused
  VectorForm form{};
  Clock::time_point received = Clock::now();
};

FieldResult<std::vector<std::string>> read_embed_input(const FieldReader& reader) {
  const Json* input = reader.find("input");
  if (input == nullptr) return refuse_field(reader.path_of("input"), "missing");
  if (input->is_string()) return std::vector{input->get<std::string>()};
  return read_texts(*input, reader.path_of("input"), kMaxEmbeddedTexts, SIZE_MAX);
}

// Cuts a text to the context. The token that ends each text of the vocabulary stays.
FieldResult<> fit_tokens(const ServedModel& model, std::vector<int32_t>& tokens, bool truncates) {
  const auto n_ctx = static_cast<size_t>(model.embedder()->n_ctx());
  if (tokens.size() <= n_ctx || !truncates) return require_fit(model, std::ssize(tokens));
  const auto specials = model.tokenizer().tokenize("", {.add_special = true});
  const bool has_end = specials && !specials->empty() && specials->back() == tokens.back() &&
                       (specials->size() > 1 || !model.vocab().add_bos());
  const int32_t last = tokens.back();
  tokens.resize(n_ctx);
  if (has_end) tokens.back() = last;
  return {};
}

FieldResult<std::vector<std::vector<int32_t>>> tokenize_embed_texts(const ServedModel& model,
                                                                    const OllamaEmbedCall& call,
                                                                    const FieldPath& path) {
  std::vector<std::vector<int32_t>> tokenized;
  for (const std::string& text : call.texts) {
    auto tokens = model.tokenizer().tokenize(text, {.add_special = true});
    if (!tokens) return std::unexpected(field_error_of(tokens.error(), path.text()));
    if (tokens->empty()) return refuse_field(path, "a text without tokens");
    TESSERA_READ(fit_tokens(model, *tokens, call.truncates));
    tokenized.push_back(std::move(*tokens));
  }
  return tokenized;
}

std::string write_ollama_list(EmbeddingResults& results, const OllamaEmbedCall& call) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("model", call.model).key("embeddings").begin_array();
  for (std::vector<float>& vector : results.values) write_vector(writer, shape_vector(vector, call.form), call.form);
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - call.received).count();
  writer.end_array().member("total_duration", std::max<int64_t>(elapsed, 1)).member("load_duration", 1);
  writer.member("prompt_eval_count", results.n_tokens).end_object();
  return answer;
}

std::string write_ollama_vector(EmbeddingResults& results) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().key("embedding");
  std::vector<float> none;
  std::vector<float>& vector = results.values.empty() ? none : results.values.front();
  write_vector(writer, shape_vector(vector, kPlainVectors), kPlainVectors);
  writer.end_object();
  return answer;
}

FieldResult<> compute_vectors(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                              const OllamaEmbedCall& call, const FieldPath& path, const EmbeddingWriter& writer) {
  TESSERA_READ(require_embeddings(model));
  if (model.embedder()->use().pooling == nn::Pooling::none)
    return std::unexpected(FieldError{.message = "the server computes a vector per token: --pooling none"});
  EmbeddingCall embedding{.fields = context.defaults_of(model)};
  auto texts = tokenize_embed_texts(model, call, path);
  if (!texts) return forward_error(texts);
  if (texts->empty()) {
    EmbeddingResults none;
    exchange->answer({.body = writer(none)});
    return {};
  }
  embedding.texts = std::move(*texts);
  return start_embedding(context, model, exchange, std::move(embedding), writer);
}

FieldResult<std::string> answered_name(const ServedModel& model, const FieldReader& reader) {
  const auto name = reader.text("model");
  if (!name) return std::unexpected(name.error());
  return shown_ollama_name(model, name->value_or(""));
}

}  // namespace

FieldResult<> start_ollama_embed(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange) {
  OllamaEmbedCall call{.form = {.norm = context.options().embd_normalize}};
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  auto name = answered_name(model, *reader);
  if (!name) return forward_error(name);
  call.model = std::move(*name);
  auto texts = read_embed_input(*reader);
  if (!texts) return forward_error(texts);
  call.texts = std::move(*texts);
  if (call.texts.size() == 1 && call.texts.front().empty()) call.texts.clear();  // only loads the model
  const auto truncates = reader->boolean("truncate");
  if (!truncates) return std::unexpected(truncates.error());
  call.truncates = truncates->value_or(true);
  const auto dimensions = reader->integer("dimensions", 1, model.facts().n_embd);
  if (!dimensions) return std::unexpected(dimensions.error());
  call.form.dimensions = *dimensions;
  return compute_vectors(context, model, exchange, call, reader->path_of("input"),
                         [call](EmbeddingResults& results) { return write_ollama_list(results, call); });
}

FieldResult<> start_ollama_embeddings(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange) {
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  auto name = answered_name(model, *reader);
  if (!name) return forward_error(name);
  const auto prompt = reader->required_text("prompt");
  if (!prompt) return std::unexpected(prompt.error());
  OllamaEmbedCall call{.form = kPlainVectors};
  if (!prompt->empty()) call.texts.emplace_back(*prompt);  // an empty one only loads the model
  return compute_vectors(context, model, exchange, call, reader->path_of("prompt"), write_ollama_vector);
}

}  // namespace tessera::server
