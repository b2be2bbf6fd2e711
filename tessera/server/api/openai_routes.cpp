#include "tessera/server/api/openai_routes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/openai_chat.h"
#include "tessera/server/api/openai_completion.h"
#include "tessera/server/api/openai_embedding.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

// The prompt of a chat, without an answer.
FieldResult<ChatPlan> plan_of(ApiContext& context, ServedModel& model, Exchange& exchange) {
  auto body = read_json_field(exchange.take_body());
  if (!body) return forward_error(body);
  auto read = read_openai_chat(context, model, *body, exchange.request().client);
  if (!read) return forward_error(read);
  return plan_chat(model, std::move(read->call));
}

FieldResult<> answer_template(ApiContext& context, ServedModel& model, Exchange& exchange) {
  auto plan = plan_of(context, model, exchange);
  if (!plan) return forward_error(plan);
  std::string answer;
  JsonWriter(answer).begin_object().member("prompt", plan->prompt).end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> count_input_tokens(ApiContext& context, ServedModel& model, Exchange& exchange) {
  auto plan = plan_of(context, model, exchange);
  if (!plan) return forward_error(plan);
  answer_input_tokens(exchange, *plan);
  return {};
}

}  // namespace

void add_openai_routes(Router& router, ApiContext& context) {
  RouteAdder routes(router, context);
  routes.add_chat({"/v1/chat/completions", "/chat/completions"}, [&context](ServedModel& model, const auto& exchange) {
    return start_openai_chat(context, model, exchange);
  });
  routes.add_free("POST", {"/v1/chat/completions/control", "/chat/completions/control"},
                  [&context](const auto& exchange) { return control_openai_chat(context, *exchange); });
  routes.add_task({"/v1/completions"}, TaskKind::generation, [&context](ServedModel& model, const auto& exchange) {
    return start_openai_completion(context, model, exchange);
  });
  routes.add_task({"/v1/embeddings"}, TaskKind::embedding, [&context](ServedModel& model, const auto& exchange) {
    return start_openai_embedding(context, model, exchange);
  });
  routes.add("POST", {"/apply-template"}, [&context](ServedModel& model, const auto& exchange) {
    return answer_template(context, model, *exchange);
  });
  routes.add(
      "POST", {"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"},
      [&context](ServedModel& model, const auto& exchange) { return count_input_tokens(context, model, *exchange); });
}

}  // namespace tessera::server
