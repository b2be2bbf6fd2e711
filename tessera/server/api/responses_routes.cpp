#include "tessera/server/api/responses_routes.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/responses.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/writer.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

FieldResult<> answer_response_tokens(ApiContext& context, ServedModel& model, ResponseStore& store,
                                     Exchange& exchange) {
  auto body = read_json_field(exchange.take_body());
  if (!body) return forward_error(body);
  auto read = read_response_call(context, model, store, *body, exchange.request().client);
  if (!read) return forward_error(read);
  auto plan = plan_response(model, *read);
  if (!plan) return forward_error(plan);
  answer_input_tokens(exchange, *plan);
  return {};
}

void refuse_unknown_response(Exchange& exchange, std::string_view id) {
  answer_error(exchange, {.status = 404,
                          .type = "not_found_error",
                          .message = fmt::format("Response with id {} not found", text::quote_text(id))});
}

void answer_stored(ResponseStore& store, Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const std::string& id = request.path_segments.front();
  auto stored = store.find(id, request.client.name);
  if (!stored) return refuse_unknown_response(exchange, id);
  exchange.answer({.body = std::move(stored->object)});
}

void delete_stored(ResponseStore& store, Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const std::string& id = request.path_segments.front();
  if (!store.erase(id, request.client.name)) return refuse_unknown_response(exchange, id);
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("id", id).member("object", "response").member("deleted", true).end_object();
  exchange.answer({.body = std::move(answer)});
}

}  // namespace

void add_responses_routes(Router& router, ApiContext& context) {
  const auto store = std::make_shared<ResponseStore>(context.options().stored_response_bytes);
  RouteAdder routes(router, context);
  routes.add_chat({"/v1/responses", "/responses"}, [&context, store](ServedModel& model, const auto& exchange) {
    return start_response(context, model, store, exchange);
  });
  routes.add("POST", {"/v1/responses/input_tokens", "/responses/input_tokens"},
             [&context, store](ServedModel& model, const auto& exchange) {
               return answer_response_tokens(context, model, *store, *exchange);
             });
  routes.add_quick("GET", {"/v1/responses/{}", "/responses/{}"},
                   [store](const std::shared_ptr<Exchange>& exchange) { answer_stored(*store, *exchange); });
  routes.add_quick("DELETE", {"/v1/responses/{}", "/responses/{}"},
                   [store](const std::shared_ptr<Exchange>& exchange) { delete_stored(*store, *exchange); });
}

}  // namespace tessera::server
