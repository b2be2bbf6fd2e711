#include "tessera/server/api/anthropic_routes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/anthropic.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

FieldResult<> answer_count_tokens(ApiContext& context, ServedModel& model, Exchange& exchange) {
  auto body = read_json_field(exchange.take_body());
  if (!body) return forward_error(body);
  auto read = read_anthropic_call(context, model, *body, exchange.request().client);
  if (!read) return forward_error(read);
  auto plan = plan_chat(model, std::move(read->call));
  if (!plan) return forward_error(plan);
  std::string answer;
  JsonWriter(answer).begin_object().member("input_tokens", plan->generation.prompts.front().size()).end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

}  // namespace

void add_anthropic_routes(Router& router, ApiContext& context) {
  RouteAdder routes(router, context);
  routes.add_chat({"/v1/messages"}, [&context](ServedModel& model, const auto& exchange) {
    return start_anthropic_message(context, model, exchange);
  });
  routes.add("POST", {"/v1/messages/count_tokens"}, [&context](ServedModel& model, const auto& exchange) {
    return answer_count_tokens(context, model, *exchange);
  });
}

}  // namespace tessera::server
