// The fields of the Responses API beside its items, and those of generation.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/responses.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/writer.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

// Names that this dialect reads itself, or accepts without effect.
constexpr std::string_view kResponseFields[] = {"input",
                                                "instructions",
                                                "max_output_tokens",
                                                "max_tool_calls",
                                                "tools",
                                                "tool_choice",
                                                "parallel_tool_calls",
                                                "text",
                                                "reasoning",
                                                "top_logprobs",
                                                "include",
                                                "store",
                                                "previous_response_id",
                                                "metadata",
                                                "truncation",
                                                "user",
                                                "safety_identifier",
                                                "prompt_cache_key",
                                                "prompt_cache_retention",
                                                "service_tier",
                                                "background"};
constexpr std::string_view kRefusedFields[] = {"conversation", "prompt", "context_management"};

FieldResult<Json> chat_tool_of(const Json& given, const std::string& path) {
  auto tool = FieldReader::create(given, path);
  if (!tool) return forward_error(tool);
  const auto type = tool->required_text("type");
  if (!type) return std::unexpected(type.error());
  if (*type != "function") return Json();
  const auto name = tool->required_text("name");
  if (!name) return std::unexpected(name.error());
  if (!is_tool_name(*name)) return wrong_value(tool->path_of("name"), given["name"], kToolNameForm);
  const auto parameters = tool->object("parameters");
  if (!parameters) return std::unexpected(parameters.error());
  Json function = {{"name", std::string(*name)}};
  for (const std::string_view member : {"description", "parameters"})
    if (const Json* value = tool->find(member); value != nullptr) function[std::string(member)] = *value;
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

FieldResult<> read_response_tools(const FieldReader& body, ChatCall& call) {
  const auto tools = body.list("tools", kMaxTools);
  if (!tools) return std::unexpected(tools.error());
  if (*tools == nullptr) return {};
  Json functions = Json::array();
  for (size_t i = 0; i < (*tools)->size(); ++i) {
    auto tool = chat_tool_of((**tools)[i], fmt::format("tools[{}]", i));
    if (!tool) return forward_error(tool);
    if (!tool->is_null()) functions.push_back(std::move(*tool));
  }
  auto checked = check_tools(functions);
  if (!checked) return forward_error(checked);
  call.tools = std::move(*checked);
  return {};
}

FieldResult<ToolChoice> choice_mode(const FieldPath& path, const Json& value) {
  if (value == "none") return ToolChoice::none;
  if (value == "auto") return ToolChoice::automatic;
  if (value == "required") return ToolChoice::required;
  return wrong_value(path, value, "none, auto, required, or an object of type function or allowed_tools");
}

FieldResult<> read_named_choice(const FieldReader& choice, ChatCall& call) {
  constexpr std::string_view kChoiceTypes[] = {"function", "allowed_tools"};
  const auto type = choice.choice("type", kChoiceTypes);
  if (!type) return std::unexpected(type.error());
  if (!*type) return refuse_field(choice.path_of("type"), "absent, want a text");
  if (**type == 0) {
    const auto name = choice.required_text("name");
    if (!name) return std::unexpected(name.error());
    call.tool_choice = ToolChoice::required;
    call.allowed_tools = {std::string(*name)};
    return {};
  }
  if (const Json* mode = choice.find("mode"); mode != nullptr) {
    const auto known = choice_mode(choice.path_of("mode"), *mode);
    if (!known) return std::unexpected(known.error());
    call.tool_choice = *known;
  }
  const auto tools = choice.required_list("tools", kMaxTools);
  if (!tools) return std::unexpected(tools.error());
  for (size_t i = 0; i < (*tools)->size(); ++i) {
    auto tool = FieldReader::create((**tools)[i], fmt::format("tool_choice.tools[{}]", i));
    if (!tool) return forward_error(tool);
    const auto name = tool->required_text("name");
    if (!name) return std::unexpected(name.error());
    call.allowed_tools.emplace_back(*name);
  }
  return {};
}

FieldResult<> read_response_tool_choice(const FieldReader& body, ChatCall& call) {
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr) return {};
  if (choice->is_object()) {
    TESSERA_READ(read_named_choice(FieldReader(*choice, "tool_choice"), call));
  } else {
    const auto mode = choice_mode(body.path_of("tool_choice"), *choice);
    if (!mode) return std::unexpected(mode.error());
    call.tool_choice = *mode;
  }
  if (call.tools.empty() && call.tool_choice == ToolChoice::required)
    return refuse_field(body.path_of("tool_choice"), "there are no tools to call");
  return {};
}

FieldResult<> read_text_format(const FieldReader& body, ChatCall& call) {
  auto text = body.object("text");
  if (!text) return forward_error(text);
  if (!*text) return {};
  auto format = (*text)->object("format");
  if (!format) return forward_error(format);
  if (!*format) return {};
  constexpr std::string_view kFormats[] = {"text", "json_object", "json_schema"};
  const auto type = (*format)->choice("type", kFormats);
  if (!type) return std::unexpected(type.error());
  if (!*type) return refuse_field((*format)->path_of("type"), "absent, want a text");
  if (**type == 0) return {};
  call.answer_schema = R"({"type":"object"})";
  call.answer_schema_field = (*format)->path_of("schema").text();
  if (**type == 2) {
    const auto schema = (*format)->object("schema");
    if (!schema) return std::unexpected(schema.error());
    if (!*schema) return refuse_field((*format)->path_of("schema"), "absent, want an object");
    call.answer_schema = json_text(*(*format)->find("schema"));
  }
  if (call.tool_choice == ToolChoice::required)
    return refuse_field((*text)->path_of("format"), "cannot be combined with a forced tool call");
  return {};
}

FieldResult<> read_output_fields(const FieldReader& body, const ApiContext& context, ChatCall& call) {
  const auto most = body.integer("max_output_tokens", 0, INT32_MAX);
  if (!most) return std::unexpected(most.error());
  if (*most) {
    const auto n_predict = static_cast<int32_t>(**most);
    call.fields.n_predict = call.fields.n_predict < 0 ? n_predict : std::min(call.fields.n_predict, n_predict);
  }
  const auto top = body.integer("top_logprobs", 0, context.options().max_logprobs);
  if (!top) return std::unexpected(top.error());
  if (*top) call.n_probs = static_cast<int32_t>(**top);
  const auto include = body.texts("include", 64, 256);
  if (!include) return std::unexpected(include.error());
  if (*include && std::ranges::find(**include, "message.output_text.logprobs") != (*include)->end())
    call.n_probs = std::max(call.n_probs, 0);
  auto reasoning = body.object("reasoning");
  if (!reasoning) return forward_error(reasoning);
  if (!*reasoning) return {};
  const auto effort = (*reasoning)->text("effort", 64);
  if (!effort) return std::unexpected(effort.error());
  if (!*effort) return {};
  call.reasoning_effort = std::string(**effort);
  if (**effort == "none") call.enable_thinking = false;
  return {};
}

// The stored messages, the new ones, and the instructions before them.
FieldResult<> read_history(const FieldReader& body, ResponseStore& store, const Client& client,
                           ReadResponseCall& result) {
  Json messages = Json::array();
  const auto previous = body.text("previous_response_id", 256);
  if (!previous) return std::unexpected(previous.error());
  if (*previous) {
    const auto stored = store.find(**previous, client.name);
    if (!stored)
      return std::unexpected(
          FieldError{.status = 404,
                     .type = "not_found_error",
                     .message = fmt::format("Previous response with id {} not found", text::quote_text(**previous)),
                     .param = "previous_response_id"});
    auto read = read_json_field(stored->messages);
    if (!read) return forward_error(read);
    messages = std::move(*read);
  }
  const Json* input = body.find("input");
  if (input == nullptr) return refuse_field(body.path_of("input"), "absent, want a text or a list of items");
  TESSERA_READ(read_response_input(*input, messages));
  if (messages.empty()) return refuse_field(body.path_of("input"), "empty, want one item or more");
  result.history = json_text(messages);
  const auto instructions = body.text("instructions");
  if (!instructions) return std::unexpected(instructions.error());
  if (*instructions)
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", std::string(**instructions)}});
  result.chat.call.messages = json_text(messages);
  return {};
}

FieldResult<> read_echo(const FieldReader& body, ReadResponseCall& result) {
  const auto metadata = body.object("metadata");
  if (!metadata) return std::unexpected(metadata.error());
  const auto user = body.text("user", 1024);
  if (!user) return std::unexpected(user.error());
  constexpr std::string_view kTruncations[] = {"disabled", "auto"};
  const auto truncation = body.choice("truncation", kTruncations);
  if (!truncation) return std::unexpected(truncation.error());
  result.drops_oldest = truncation->value_or(0) == 1;
  const auto stores = body.boolean("store"), background = body.boolean("background");
  if (!stores) return std::unexpected(stores.error());
  if (!background) return std::unexpected(background.error());
  if (background->value_or(false)) return refuse_field(body.path_of("background"), "not supported");
  result.stores = stores->value_or(true);
  ResponseEcho& echo = result.echo;
  const std::pair<std::string_view, std::string*> members[] = {
      {"instructions", &echo.instructions}, {"previous_response_id", &echo.previous_response_id},
      {"reasoning", &echo.reasoning},       {"text", &echo.text},
      {"tool_choice", &echo.tool_choice},   {"tools", &echo.tools},
      {"truncation", &echo.truncation},     {"user", &echo.user},
      {"metadata", &echo.metadata}};
  for (const auto& [name, text] : members)
    if (const Json* value = body.find(name); value != nullptr) *text = json_text(*value);
  return {};
}

}  // namespace

FieldResult<ReadResponseCall> read_response_call(ApiContext& context, ServedModel& model, ResponseStore& store,
                                                 const Json& body, const Client& client) {
  auto reader = FieldReader::create(body);
  if (!reader) return forward_error(reader);
  for (const std::string_view name : kRefusedFields)
    if (reader->find(name) != nullptr) return refuse_field(reader->path_of(name), "not supported");
  auto read = read_generation_fields(body, context.defaults_of(model), generation_limits(context, model, client),
                                     kResponseFields);
  if (!read) return forward_error(read);
  ReadResponseCall result{.chat = {.call = {.fields = std::move(read->fields)}, .ignored = std::move(read->ignored)}};
  ChatCall& call = result.chat.call;
  if (call.fields.n_choices != 1) return refuse_field({.name = "n"}, "a response has one answer");
  TESSERA_READ(read_history(*reader, store, client, result));
  TESSERA_READ(read_response_tools(*reader, call));
  TESSERA_READ(read_response_tool_choice(*reader, call));
  const auto parallel = reader->boolean("parallel_tool_calls");
  if (!parallel) return std::unexpected(parallel.error());
  call.allows_parallel_calls = parallel->value_or(true);
  TESSERA_READ(read_text_format(*reader, call));
  TESSERA_READ(read_output_fields(*reader, context, call));
  TESSERA_READ(read_echo(*reader, result));
  TESSERA_READ(check_grammar_use(call));
  return result;
}

// The number of messages to leave out is found by bisection, as each try renders all that are left.
FieldResult<ChatPlan> plan_response(ServedModel& model, ReadResponseCall& read) {
  const auto fits = [&](const FieldResult<ChatPlan>& plan) {
    return !plan || std::ssize(plan->generation.prompts.front()) < model.slot_context();
  };
  ChatCall call = read.chat.call;
  auto plan = plan_chat(model, call);
  if (!read.drops_oldest || fits(plan)) return plan;
  auto messages = read_json_field(call.messages);
  if (!messages) return forward_error(messages);
  const bool has_instructions = read.echo.instructions != "null";
  std::vector<size_t> starts;  // messages of the user that the rest may begin with
  for (size_t i = has_instructions ? 2 : 1; i < messages->size(); ++i)
    if ((*messages)[i]["role"] == "user") starts.push_back(i);
  size_t low = 0, high = starts.size();  // the answer is in [low, high)
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    Json rest = Json::array();
    if (has_instructions) rest.push_back(messages->front());
    rest.insert(rest.end(), messages->begin() + static_cast<ptrdiff_t>(starts[middle]), messages->end());
    call.messages = json_text(rest);
    auto shorter = plan_chat(model, call);
    if (!shorter) return shorter;
    if (fits(shorter)) {
      plan = std::move(shorter);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return plan;
}

}  // namespace tessera::server
