#include "tessera/server/api/ollama_routes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/ollama_calls.h"
#include "tessera/server/api/ollama_embed.h"
#include "tessera/server/api/ollama_models.h"
#include "tessera/server/api/ollama_names.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/json_field.h"

namespace tessera::server {

namespace {

// The version of the API that these routes have. Clients compare it with the one that they need.
constexpr std::string_view kVersionAnswer = R"({"version":"0.20.0"})";

FieldError writing_is_off(std::string_view action) {
  return {.status = 403,
          .type = "permission_error",
          .message = fmt::format("this server does not {} models: writing is switched off", action)};
}

FieldResult<> refuse_push(Exchange& exchange) {
  auto body = read_json_field(exchange.take_body());
  if (!body) return forward_error(body);
  return std::unexpected(FieldError{
      .status = 501, .type = "not_supported_error", .message = "this server sends no models to other servers"});
}

// A body without its model's name is refused as such, so that a client finds its own mistake first.
FreePart refuse_writing(std::string_view action, const char* name_field) {
  return [action, name_field](const std::shared_ptr<Exchange>& exchange) -> FieldResult<> {
    auto reader = FieldReader::parse(exchange->take_body());
    if (!reader) return forward_error(reader);
    const auto name = name_field != nullptr ? reader->required_text(name_field) : required_ollama_name(*reader);
    if (!name) return std::unexpected(name.error());
    return std::unexpected(writing_is_off(action));
  };
}

void add_writing_routes(Router& router, ApiContext& context) {
  if (!context.options().named_models.empty()) return add_ollama_name_routes(router, context);
  RouteAdder routes(router, context);
  routes.add_free("POST", {"/api/copy"}, refuse_writing("copy", "source"));
  routes.add_free("POST", {"/api/create"}, refuse_writing("create", nullptr));
  routes.add_free("DELETE", {"/api/delete"}, refuse_writing("delete", nullptr));
  for (const char* method : {"HEAD", "POST"})
    routes.add_free(method, {"/api/blobs/{}"},
                    [](const auto&) -> FieldResult<> { return std::unexpected(writing_is_off("store files of")); });
}

}  // namespace

Handler with_ollama_greeting(Handler otherwise) {
  return [otherwise = std::move(otherwise)](std::shared_ptr<Exchange> exchange) {
    const auto agent = exchange->request().field("user-agent");
    if (!agent.value_or("").starts_with("ollama")) return otherwise(std::move(exchange));
    exchange->answer({.body = "Ollama is running", .content_type = "text/plain; charset=utf-8"});
  };
}

void add_ollama_routes(Router& router, ApiContext& context) {
  const auto files = std::make_shared<OllamaFiles>();
  RouteAdder routes(router, context);
  routes.add_task({"/api/generate"}, TaskKind::generation, [&context](ServedModel& model, const auto& exchange) {
    return start_ollama_generate(context, model, exchange);
  });
  routes.add_task({"/api/chat"}, TaskKind::generation, [&context](ServedModel& model, const auto& exchange) {
    return start_ollama_chat(context, model, exchange);
  });
  routes.add_task({"/api/embed"}, TaskKind::embedding, [&context](ServedModel& model, const auto& exchange) {
    return start_ollama_embed(context, model, exchange);
  });
  routes.add_task({"/api/embeddings"}, TaskKind::embedding, [&context](ServedModel& model, const auto& exchange) {
    return start_ollama_embeddings(context, model, exchange);
  });
  routes.add_free("GET", {"/api/tags"},
                  [&context, files](const auto& exchange) { return answer_ollama_tags(context, *files, *exchange); });
  routes.add_free("GET", {"/api/ps"},
                  [&context, files](const auto& exchange) { return answer_ollama_ps(context, *files, *exchange); });
  routes.add("POST", {"/api/show"}, [files](ServedModel& model, const auto& exchange) {
    return answer_ollama_show(*files, model, *exchange);
  });
  routes.add_free("POST", {"/api/pull"},
                  [&context, files](const auto& exchange) { return answer_ollama_pull(context, *files, *exchange); });
  routes.add_free("POST", {"/api/push"}, [](const auto& exchange) { return refuse_push(*exchange); });
  routes.add_quick("GET", {"/api/version"}, [](const std::shared_ptr<Exchange>& exchange) {
    exchange->answer({.body = std::string(kVersionAnswer)});
  });
  add_writing_routes(router, context);
}

}  // namespace tessera::server
