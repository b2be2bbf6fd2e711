// The fields of a chat completion beside those of generation.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/openai_chat.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

// Names that this dialect reads itself, or accepts without effect.
constexpr std::string_view kChatFields[] = {"messages",
                                            "tools",
                                            "tool_choice",
                                            "parallel_tool_calls",
                                            "response_format",
                                            "logprobs",
                                            "top_logprobs",
                                            "reasoning_effort",
                                            "reasoning_format",
                                            "chat_template_kwargs",
                                            "add_generation_prompt",
                                            "continue_final_message",
                                            "store",
                                            "metadata",
                                            "user",
                                            "safety_identifier",
                                            "prompt_cache_key",
                                            "prompt_cache_retention",
                                            "service_tier",
                                            "verbosity",
                                            "prediction",
                                            "modalities"};

// Fields that would change the answer in a way that this server does not offer.
constexpr std::string_view kRefused[] = {"audio", "web_search_options", "functions", "function_call", "moderation"};

constexpr int kPriorityTier = -5, kFlexTier = 5;

std::unexpected<FieldError> refuse(std::string field, std::string_view reason) {
  return std::unexpected(
      FieldError{.message = fmt::format("Field '{}': {}", field, reason), .param = std::move(field)});
}

FieldResult<> read_tool_choice(const FieldReader& body, ChatCall& call) {
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr) return {};
  constexpr std::string_view kForms =
      "\"none\", \"auto\", \"required\", {\"type\": \"function\"} or {\"type\": \"allowed_tools\"}";
  const auto mode_of = [&](std::string_view mode) -> FieldResult<ToolChoice> {
    if (mode == "none") return ToolChoice::none;
    if (mode == "auto") return ToolChoice::automatic;
    if (mode == "required") return ToolChoice::required;
    return wrong_value(body.path_of("tool_choice"), *choice, kForms);
  };
  if (choice->is_string()) {
    const auto mode = mode_of(choice->get_ref<const std::string&>());
    if (!mode) return std::unexpected(mode.error());
    call.tool_choice = *mode;
    return {};
  }
  auto object = FieldReader::create(*choice, "tool_choice");
  if (!object) return wrong_value(body.path_of("tool_choice"), *choice, kForms);
  const auto type = object->required_text("type");
  if (!type) return std::unexpected(type.error());
  if (*type == "function") {
    auto function = object->object("function");
    if (!function) return forward_error(function);
    if (!*function) return refuse("tool_choice.function", "missing");
    const auto name = (*function)->required_text("name");
    if (!name) return std::unexpected(name.error());
    call.tool_choice = ToolChoice::required;
    call.allowed_tools = {std::string(*name)};
    return {};
  }
  if (*type != "allowed_tools") return wrong_value(body.path_of("tool_choice"), *choice, kForms);
  auto allowed = object->object("allowed_tools");
  if (!allowed) return forward_error(allowed);
  if (!*allowed) return refuse("tool_choice.allowed_tools", "missing");
  const auto mode = (*allowed)->text("mode");
  if (!mode) return std::unexpected(mode.error());
  const auto choice_mode = mode_of(mode->value_or("auto"));
  if (!choice_mode) return std::unexpected(choice_mode.error());
  call.tool_choice = *choice_mode;
  const auto tools = (*allowed)->required_list("tools", kMaxTools);
  if (!tools) return std::unexpected(tools.error());
  for (size_t i = 0; i < (*tools)->size(); ++i) {
    const std::string path = fmt::format("tool_choice.allowed_tools.tools[{}]", i);
    auto tool = FieldReader::create((**tools)[i], path);
    if (!tool) return forward_error(tool);
    auto function = tool->object("function");
    if (!function) return forward_error(function);
    const auto name = *function ? (*function)->required_text("name") : tool->required_text("name");
    if (!name) return std::unexpected(name.error());
    call.allowed_tools.emplace_back(*name);
  }
  return {};
}

FieldResult<> read_response_format(const FieldReader& body, ChatCall& call) {
  auto format = body.object("response_format");
  if (!format) return forward_error(format);
  if (!*format) return {};
  constexpr std::string_view kTypes[] = {"text", "json_object", "json_schema"};
  const auto type = (*format)->choice("type", kTypes);
  if (!type) return std::unexpected(type.error());
  if (!*type) return refuse("response_format.type", "missing");
  const Json* schema = nullptr;
  if (**type == 1) {
    schema = (*format)->find("schema");
    call.answer_schema = R"({"type":"object"})";
  } else if (**type == 2) {
    auto inside = (*format)->object("json_schema");
    if (!inside) return forward_error(inside);
    if (!*inside) return refuse("response_format.json_schema", "missing");
    schema = (*inside)->find("schema");
    if (schema == nullptr) return refuse("response_format.json_schema.schema", "missing");
  }
  if (schema != nullptr) {
    if (!schema->is_object() && !schema->is_boolean()) return refuse("response_format", "the schema is no object");
    call.answer_schema = json_text(*schema);
  }
  if (!call.answer_schema.empty() && call.tool_choice == ToolChoice::required)
    return refuse("response_format", "cannot be combined with a forced tool call");
  return {};
}

FieldResult<> read_logprobs(const FieldReader& body, const ApiContext& context, ChatCall& call) {
  const auto wants = body.boolean("logprobs");
  if (!wants) return std::unexpected(wants.error());
  const auto top = body.integer("top_logprobs", 0, context.options().max_logprobs);
  if (!top) return std::unexpected(top.error());
  if (*top && !wants->value_or(false)) return refuse("top_logprobs", "needs \"logprobs\": true");
  constexpr int64_t kDefault = 20;
  if (wants->value_or(false)) call.n_probs = static_cast<int32_t>(top->value_or(kDefault));
  return {};
}

FieldResult<> read_reasoning(const FieldReader& body, ChatCall& call) {
  const auto effort = body.text("reasoning_effort", 64);
  if (!effort) return std::unexpected(effort.error());
  if (*effort) {
    call.reasoning_effort = std::string(**effort);
    if (**effort == "none") call.enable_thinking = false;
  }
  constexpr std::string_view kFormats[] = {"auto", "deepseek", "deepseek-legacy", "none"};
  const auto format = body.choice("reasoning_format", kFormats);
  if (!format) return std::unexpected(format.error());
  if (format->value_or(0) == 2) call.reasoning = text::ReasoningFormat::deepseek_legacy;
  if (format->value_or(0) == 3) call.reasoning = text::ReasoningFormat::none;
  auto variables = body.object("chat_template_kwargs");
  if (!variables) return forward_error(variables);
  if (!*variables) return {};
  const auto thinks = (*variables)->boolean("enable_thinking");
  if (!thinks) return std::unexpected(thinks.error());
  if (*thinks) call.enable_thinking = *thinks;
  call.variables = json_text(*body.find("chat_template_kwargs"));
  return {};
}

// A last message of the assistant is continued, unless the client asks for a new one.
FieldResult<> read_messages(const FieldReader& body, ChatCall& call) {
  const Json* messages = body.find("messages");
  if (messages == nullptr) return refuse("messages", "missing");
  auto checked = check_messages(*messages);
  if (!checked) return forward_error(checked);
  call.messages = std::move(checked->json);
  const auto adds = body.boolean("add_generation_prompt"), continues = body.boolean("continue_final_message");
  if (!adds) return std::unexpected(adds.error());
  if (!continues) return std::unexpected(continues.error());
  if (adds->value_or(false) && continues->value_or(false))
    return refuse("continue_final_message", "cannot be combined with add_generation_prompt");
  if (continues->value_or(false) && !checked->ends_with_assistant)
    return refuse("continue_final_message", "the last message is not of the assistant");
  call.add_generation_prompt = adds->value_or(true);
  call.continues_last = checked->ends_with_assistant && continues->value_or(!*adds);
  return {};
}

FieldResult<> read_tier(const FieldReader& body, ChatCall& call) {
  const auto tier = body.text("service_tier", 64);
  if (!tier) return std::unexpected(tier.error());
  if (tier->value_or("") == "priority") call.fields.priority = kPriorityTier;
  if (tier->value_or("") == "flex") call.fields.priority = kFlexTier;
  return {};
}

}  // namespace

FieldResult<ReadChatCall> read_openai_chat(ApiContext& context, ServedModel& model, const Json& body,
                                           const Client& client) {
  auto reader = FieldReader::create(body);
  if (!reader) return forward_error(reader);
  for (const std::string_view name : kRefused)
    if (reader->find(name) != nullptr) return refuse(std::string(name), "not supported");
  auto read =
      read_generation_fields(body, context.defaults_of(model), generation_limits(context, model, client), kChatFields);
  if (!read) return forward_error(read);
  ReadChatCall result{.call = {.fields = std::move(read->fields)}, .ignored = std::move(read->ignored)};
  ChatCall& call = result.call;
  TESSERA_READ(read_messages(*reader, call));
  if (const Json* tools = reader->find("tools"); tools != nullptr) {
    auto checked = check_tools(*tools);
    if (!checked) return forward_error(checked);
    call.tools = std::move(*checked);
  }
  TESSERA_READ(read_tool_choice(*reader, call));
  if (call.tools.empty() && call.tool_choice == ToolChoice::required)
    return refuse("tool_choice", "there are no tools to call");
  const auto parallel = reader->boolean("parallel_tool_calls");
  if (!parallel) return std::unexpected(parallel.error());
  call.allows_parallel_calls = parallel->value_or(true);
  TESSERA_READ(read_response_format(*reader, call));
  TESSERA_READ(read_logprobs(*reader, context, call));
  TESSERA_READ(read_reasoning(*reader, call));
  TESSERA_READ(read_tier(*reader, call));
  TESSERA_READ(check_grammar_use(call));
  return result;
}

}  // namespace tessera::server
