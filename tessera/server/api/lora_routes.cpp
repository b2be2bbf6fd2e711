#include "tessera/server/api/lora_routes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/generation_task.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/special_fields.h"
#include "tessera/server/json/writer.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

FieldResult<> answer_adapters(const ServedModel& model, Exchange& exchange) {
  const std::vector<float> scales = model.adapters().scales();
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_array();
  for (int32_t id = 0; id < model.adapters().n_loras(); ++id) {
    const Adapter& adapter = model.adapters().lora(id);
    writer.begin_object().member("id", id).member("path", text::to_valid_utf8(adapter.name()));
    writer.member("scale", scales[static_cast<size_t>(id)]);
    writer.member("task_name", text::to_valid_utf8(adapter.lora()->task_name()));
    writer.member("prompt_prefix", text::to_valid_utf8(adapter.lora()->prompt_prefix())).end_object();
  }
  writer.end_array();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> set_scales(const ApiContext& context, ServedModel& model, Exchange& exchange) {
  auto body = read_json_field(exchange.take_body());
  if (!body) return forward_error(body);
  const GenerationLimits limits = generation_limits(context, model, exchange.request().client);
  const auto scales = read_lora_scales(*body, {}, limits);
  if (!scales) return std::unexpected(scales.error());
  model.adapters().set_scales(*scales);
  exchange.answer({.body = R"({"success":true})"});
  return {};
}

}  // namespace

void add_lora_routes(Router& router, ApiContext& context) {
  RouteAdder routes(router, context);
  routes.add("GET", {"/lora-adapters"},
             [](ServedModel& model, const auto& exchange) { return answer_adapters(model, *exchange); });
  routes.add("POST", {"/lora-adapters"},
             [&context](ServedModel& model, const auto& exchange) { return set_scales(context, model, *exchange); });
}

}  // namespace tessera::server
