// The fields of the Anthropic API beside messages, and those of generation.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/anthropic.h"
#include "tessera/server/json/special_fields.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

// Names that this dialect reads itself, or accepts without effect.
constexpr std::string_view kMessageFields[] = {"messages",       "system",
                                               "stop_sequences", "tools",
                                               "tool_choice",    "thinking",
                                               "output_config",  "output_format",
                                               "metadata",       "service_tier",
                                               "cache_control",  "container",
                                               "inference_geo",  "context_management",
                                               "betas"};

constexpr int32_t kDefaultMaxTokens = 4096;
constexpr int32_t kPingSeconds = 15;

// The API's own default is 1. A temperature that the server's flags set stays.
GenerationFields message_defaults(const ApiContext& context, const ServedModel& model) {
  GenerationFields defaults = context.defaults_of(model);
  if (defaults.sampling.temp == sample::SamplerParams().temp) defaults.sampling.temp = 1;
  if (defaults.sse_ping_interval_s == GenerationFields().sse_ping_interval_s)
    defaults.sse_ping_interval_s = kPingSeconds;
  return defaults;
}

FieldResult<Json> function_of(const Json& given, const std::string& path) {
  auto tool = FieldReader::create(given, path);
  if (!tool) return forward_error(tool);
  const auto type = tool->text("type");
  if (!type) return std::unexpected(type.error());
  if (type->value_or("custom") != "custom")
    return refuse_field(tool->path_of("type"),
                        fmt::format("'{}': tools of the server are not supported", (*type)->substr(0, 64)));
  const auto name = tool->required_text("name");
  if (!name) return std::unexpected(name.error());
  if (!is_tool_name(*name)) return wrong_value(tool->path_of("name"), given["name"], kToolNameForm);
  const auto description = tool->text("description");
  if (!description) return std::unexpected(description.error());
  const auto schema = tool->object("input_schema");
  if (!schema) return std::unexpected(schema.error());
  if (!*schema) return refuse_field(tool->path_of("input_schema"), "absent, want an object");
  Json function = {{"name", std::string(*name)}};
  if (*description) function["description"] = std::string(**description);
  function["parameters"] = *tool->find("input_schema");
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

FieldResult<> read_message_tools(const FieldReader& body, ChatCall& call) {
  const auto tools = body.list("tools", kMaxTools);
  if (!tools) return std::unexpected(tools.error());
  if (*tools == nullptr) return {};
  Json functions = Json::array();
  for (size_t i = 0; i < (*tools)->size(); ++i) {
    auto function = function_of((**tools)[i], fmt::format("tools[{}]", i));
    if (!function) return forward_error(function);
    functions.push_back(std::move(*function));
  }
  auto checked = check_tools(functions);
  if (!checked) return forward_error(checked);
  call.tools = std::move(*checked);
  return {};
}

FieldResult<> read_message_tool_choice(const FieldReader& body, ChatCall& call) {
  auto choice = body.object("tool_choice");
  if (!choice) return forward_error(choice);
  if (!*choice) return {};
  constexpr std::string_view kTypes[] = {"auto", "any", "none", "tool"};
  constexpr ToolChoice kChoices[] = {ToolChoice::automatic, ToolChoice::required, ToolChoice::none,
                                     ToolChoice::required};
  const auto type = (*choice)->choice("type", kTypes);
  if (!type) return std::unexpected(type.error());
  if (!*type) return refuse_field((*choice)->path_of("type"), "absent, want a text");
  call.tool_choice = kChoices[**type];
  if (kTypes[**type] == "tool") {
    const auto name = (*choice)->required_text("name");
    if (!name) return std::unexpected(name.error());
    call.allowed_tools = {std::string(*name)};
  }
  if (call.tools.empty() && call.tool_choice == ToolChoice::required)
    return refuse_field(body.path_of("tool_choice"), "there are no tools to call");
  const auto one_only = (*choice)->boolean("disable_parallel_tool_use");
  if (!one_only) return std::unexpected(one_only.error());
  call.allows_parallel_calls = !one_only->value_or(false);
  return {};
}

FieldResult<> read_thinking(const FieldReader& body, ChatCall& call) {
  auto thinking = body.object("thinking");
  if (!thinking) return forward_error(thinking);
  if (!*thinking) return {};
  constexpr std::string_view kTypes[] = {"enabled", "adaptive", "between_tools", "disabled"};
  const auto type = (*thinking)->choice("type", kTypes);
  if (!type) return std::unexpected(type.error());
  if (!*type) return refuse_field((*thinking)->path_of("type"), "absent, want a text");
  const auto budget = (*thinking)->integer("budget_tokens", 0, INT32_MAX);
  if (!budget) return std::unexpected(budget.error());
  if (*budget) call.fields.reasoning_budget = static_cast<int32_t>(**budget);
  call.enable_thinking = kTypes[**type] != "disabled";
  return {};
}

FieldResult<> read_answer_schema(const std::optional<FieldReader>& format, ChatCall& call) {
  if (!format) return {};
  constexpr std::string_view kTypes[] = {"json_schema"};
  const auto type = format->choice("type", kTypes);
  if (!type) return std::unexpected(type.error());
  if (!*type) return refuse_field(format->path_of("type"), "absent, want a text");
  const auto schema = format->object("schema");
  if (!schema) return std::unexpected(schema.error());
  if (!*schema) return refuse_field(format->path_of("schema"), "absent, want an object");
  if (call.tool_choice == ToolChoice::required)
    return refuse_field({.name = format->path()}, "cannot be combined with a forced tool call");
  call.answer_schema = json_text(*format->find("schema"));
  call.answer_schema_field = format->path_of("schema").text();
  return {};
}

FieldResult<> read_output_config(const FieldReader& body, ChatCall& call) {
  const auto format = body.object("output_format");  // the name in the API's beta
  if (!format) return std::unexpected(format.error());
  TESSERA_READ(read_answer_schema(*format, call));
  auto config = body.object("output_config");
  if (!config) return forward_error(config);
  if (!*config) return {};
  const auto effort = (*config)->text("effort", 64);
  if (!effort) return std::unexpected(effort.error());
  if (*effort) call.reasoning_effort = std::string(**effort);
  const auto inside = (*config)->object("format");
  if (!inside) return std::unexpected(inside.error());
  return read_answer_schema(*inside, call);
}

}  // namespace

FieldResult<ReadChatCall> read_anthropic_call(ApiContext& context, ServedModel& model, const Json& body,
                                              const Client& client) {
  auto reader = FieldReader::create(body);
  if (!reader) return forward_error(reader);
  const GenerationFields defaults = message_defaults(context, model);
  const GenerationLimits limits = generation_limits(context, model, client);
  auto read = read_generation_fields(body, defaults, limits, kMessageFields);
  if (!read) return forward_error(read);
  ReadChatCall result{.call = {.fields = std::move(read->fields)}, .ignored = std::move(read->ignored)};
  ChatCall& call = result.call;
  const auto has = [&](std::string_view name) { return reader->find(name) != nullptr; };
  if (!has("max_tokens") && !has("max_completion_tokens") && !has("n_predict"))
    call.fields.n_predict =
        call.fields.n_predict < 0 ? kDefaultMaxTokens : std::min(call.fields.n_predict, kDefaultMaxTokens);
  if (call.fields.n_choices != 1) return refuse_field({.name = "n"}, "a message has one answer");
  if (const Json* stops = reader->find("stop_sequences"); stops != nullptr) {
    if (!stops->is_array()) return wrong_value({.name = "stop_sequences"}, *stops, "a list of texts");
    TESSERA_READ(read_stop(*stops, {.name = "stop_sequences"}, limits, call.fields));
  }
  TESSERA_READ(read_anthropic_messages(*reader, call));
  TESSERA_READ(read_message_tools(*reader, call));
  TESSERA_READ(read_message_tool_choice(*reader, call));
  TESSERA_READ(read_thinking(*reader, call));
  TESSERA_READ(read_output_config(*reader, call));
  TESSERA_READ(check_grammar_use(call));
  return result;
}

}  // namespace tessera::server
