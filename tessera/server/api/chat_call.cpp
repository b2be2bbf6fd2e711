#include "tessera/server/api/chat_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "tessera/server/json/writer.h"
#include "tessera/text/chat/reply_grammar.h"
#include "tessera/text/template/json_reader.h"

namespace tessera::server {

namespace {

namespace jinja = text::jinja;

FieldError bad_request(std::string message, std::string param = {}) {
  return {.message = std::move(message), .param = std::move(param)};
}

FieldResult<jinja::Value> parse_value(jinja::Heap& heap, const std::string& json, std::string field) {
  if (json.empty()) return jinja::Value();
  auto parsed = jinja::parse_json(heap, json, text::Origin::given);
  if (!parsed) return std::unexpected(field_error_of(parsed.error(), std::move(field)));
  return parsed->value;
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return local;
}

FieldResult<text::ChatPrompt> render(const text::ChatTemplate& chat_template, const ChatCall& call) {
  jinja::Heap heap;
  text::ChatRequest request;
  auto messages = parse_value(heap, call.messages, "messages");
  if (!messages) return forward_error(messages);
  request.messages = *messages;
  const bool shows_tools = call.tool_choice != ToolChoice::none;
  auto tools = parse_value(heap, shows_tools ? call.tools : std::string(), "tools");
  if (!tools) return forward_error(tools);
  request.tools = *tools;
  auto variables = parse_value(heap, call.variables, "chat_template_kwargs");
  if (!variables) return forward_error(variables);
  request.variables = *variables;
  request.variables_field = "chat_template_kwargs";
  request.add_generation_prompt = call.add_generation_prompt && !call.continues_last;
  request.continues_last = call.continues_last;
  request.enable_thinking = call.enable_thinking;
  request.reasoning_effort = call.reasoning_effort;
  request.now = local_time();
  auto prompt = chat_template.render(heap, request);
  if (!prompt) return std::unexpected(bad_request(prompt.error().message));
  return std::move(*prompt);
}

FieldResult<std::vector<text::ReplyTool>> callable_tools(const ChatCall& call) {
  if (call.tools.empty() || call.tool_choice == ToolChoice::none) return std::vector<text::ReplyTool>();
  auto tools = text::parse_reply_tools(call.tools);
  if (!tools) return std::unexpected(field_error_of(tools.error(), "tools"));
  for (const std::string& name : call.allowed_tools)
    if (std::ranges::find(*tools, name, &text::ReplyTool::name) == tools->end())
      return std::unexpected(bad_request(fmt::format("Field 'tool_choice': no tool named '{}'", name), "tool_choice"));
  if (!call.allowed_tools.empty())
    std::erase_if(*tools, [&](const text::ReplyTool& tool) {
      return std::ranges::find(call.allowed_tools, tool.name) == call.allowed_tools.end();
    });
  return std::move(*tools);
}

// The grammar of the whole reply; null for any text.
FieldResult<std::shared_ptr<const text::grammar::Grammar>> reply_grammar_of(const ServedModel& model,
                                                                            const ChatCall& call,
                                                                            const ChatPlan& plan) {
  namespace grammar = text::grammar;
  const text::Vocab& vocab = model.vocab();
  const grammar::FindToken find_control = [&vocab](std::string_view text) -> std::optional<int32_t> {
    const auto id = vocab.find(text);
    return id && vocab.type(*id) == text::TokenType::control ? id : std::nullopt;
  };
  const bool has_schema = !call.answer_schema.empty();
  auto answer = compile_grammar(model, has_schema ? call.answer_schema : call.fields.json_schema,
                                has_schema ? call.answer_schema_field : "json_schema", call.fields.grammar);
  if (!answer) return forward_error(answer);
  const bool has_calls = plan.family.shape != text::ReplyShape::text && !plan.tools.empty();
  if (!*answer && !has_calls) return nullptr;
  const std::span<const text::ReplyTool> tools = has_calls ? std::span(plan.tools) : std::span<const text::ReplyTool>();
  auto whole = text::reply_grammar(plan.family,
                                   {.answer = answer->get(),
                                    .tools = tools,
                                    .must_call = has_calls && call.tool_choice == ToolChoice::required,
                                    .may_call_again = call.allows_parallel_calls},
                                   plan.generation_prompt, call.enable_thinking.value_or(true), find_control);
  if (!whole) return std::unexpected(bad_request(whole.error().text()));
  return std::move(*whole);
}

// The bound of the reasoning; null for a family without marks of it. A message of the client never becomes a control
// token.
FieldResult<std::shared_ptr<const ReasoningLimit>> reasoning_limit(const ServedModel& model, const ChatPlan& plan,
                                                                   const GenerationFields& fields) {
  const text::ReplyFamily& family = plan.family;
  if (family.reasoning_begin.empty() || family.reasoning_end.empty()) return nullptr;
  auto message = model.tokenizer().tokenize(fields.reasoning_budget_message);
  if (!message) return std::unexpected(field_error_of(message.error(), "reasoning_budget_message"));
  auto end = model.tokenizer().tokenize(family.reasoning_end, {.parse_special = true});
  if (!end) return nullptr;  // the vocabulary cannot spell it, so nothing can be forced
  ReasoningLimit limit{.start = text::ReasoningWatch(family, plan.generation_prompt),
                       .n_most = fields.reasoning_budget,
                       .ending = std::move(*message)};
  limit.ending.insert(limit.ending.end(), end->begin(), end->end());
  return std::make_shared<const ReasoningLimit>(std::move(limit));
}

// --- checks of messages

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};

// The text of a content: a text, or texts as parts.
FieldResult<std::string> content_text(const Json& content, const FieldPath& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong_value(path, content, "a text, null, or a list of parts");
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string part_path = path.at(i).text();
    auto part = FieldReader::create(content[i], part_path);
    if (!part) return forward_error(part);
    const auto type = part->required_text("type");
    if (!type) return std::unexpected(type.error());
    if (*type != "text" && *type != "refusal")
      return std::unexpected(
          bad_request(fmt::format("Field '{}.type': '{}': image and audio input is not supported", part_path, *type),
                      part_path + ".type"));
    const auto text = part->required_text(*type);
    if (!text) return std::unexpected(text.error());
    if (i > 0) joined += '\n';
    joined += *text;
  }
  return joined;
}

// Arguments are JSON in a text; objects are accepted as well.
FieldResult<Json> checked_calls(const Json& calls, const std::string& path) {
  Json checked = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    auto call = FieldReader::create(calls[i], fmt::format("{}[{}]", path, i));
    if (!call) return forward_error(call);
    auto function = call->object("function");
    if (!function) return forward_error(function);
    if (!*function) return refuse_field(call->path_of("function"), "missing");
    const auto name = (*function)->required_text("name");
    if (!name) return std::unexpected(name.error());
    const auto id = call->text("id");
    if (!id) return std::unexpected(id.error());
    const Json* arguments = (*function)->find("arguments");
    Json text = "{}";
    if (arguments != nullptr) text = arguments->is_string() ? *arguments : Json(json_text(*arguments));
    checked.push_back({{"id", std::string(id->value_or(""))},
                       {"type", "function"},
                       {"function", {{"name", std::string(*name)}, {"arguments", std::move(text)}}}});
  }
  return checked;
}

FieldResult<Json> checked_message(const Json& given, const std::string& path) {
  auto reader = FieldReader::create(given, path);
  if (!reader) return forward_error(reader);
  const auto role = reader->required_text("role");
  if (!role) return std::unexpected(role.error());
  if (std::ranges::find(kRoles, *role) == std::end(kRoles))
    return wrong_value(reader->path_of("role"), given["role"], "system, developer, user, assistant, tool or function");
  Json message = {{"role", std::string(*role)}};
  const Json* content = reader->find("content");
  if (content == nullptr && *role != "assistant") return refuse_field(reader->path_of("content"), "missing");
  if (content != nullptr) {
    auto text = content_text(*content, reader->path_of("content"));
    if (!text) return forward_error(text);
    message["content"] = std::move(*text);
  } else {
    message["content"] = nullptr;
  }
  for (const std::string_view name : {"reasoning_content", "tool_call_id", "name"}) {
    const auto text = reader->text(name);
    if (!text) return std::unexpected(text.error());
    if (*text) message[std::string(name)] = std::string(**text);
  }
  const auto calls = reader->list("tool_calls");
  if (!calls) return std::unexpected(calls.error());
  if (*calls != nullptr && !(*calls)->empty()) {
    auto checked = checked_calls(**calls, path + ".tool_calls");
    if (!checked) return forward_error(checked);
    message["tool_calls"] = std::move(*checked);
  }
  return message;
}

}  // namespace

bool is_tool_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_allowed);
}

FieldResult<> check_grammar_use(const ChatCall& call) {
  if (call.fields.grammar.empty() && call.fields.json_schema.empty()) return {};
  if (!call.tools.empty()) return refuse_field({.name = "grammar"}, "cannot be combined with tools");
  if (!call.answer_schema.empty())
    return refuse_field({.name = "grammar"}, fmt::format("cannot be combined with {}", call.answer_schema_field));
  return {};
}

FieldResult<CheckedMessages> check_messages(const Json& messages) {
  if (!messages.is_array()) return wrong_value({.name = "messages"}, messages, "a list");
  Json checked = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    auto message = checked_message(messages[i], fmt::format("messages[{}]", i));
    if (!message) return forward_error(message);
    checked.push_back(std::move(*message));
  }
  const auto is_assistant = [&](size_t back) {
    return checked.size() >= back && checked[checked.size() - back]["role"] == "assistant";
  };
  if (is_assistant(1) && is_assistant(2))
    return std::unexpected(bad_request("Field 'messages': two messages of the assistant at the end", "messages"));
  return CheckedMessages{.json = json_text(checked), .ends_with_assistant = is_assistant(1)};
}

FieldResult<std::string> check_tools(const Json& tools) {
  if (!tools.is_array()) return wrong_value({.name = "tools"}, tools, "a list");
  if (tools.empty()) return std::string();
  if (tools.size() > kMaxTools)
    return std::unexpected(
        bad_request(fmt::format("Field 'tools': {} tools, want at most {}", tools.size(), kMaxTools), "tools"));
  std::vector<std::string> names;
  for (size_t i = 0; i < tools.size(); ++i) {
    auto tool = FieldReader::create(tools[i], fmt::format("tools[{}]", i));
    if (!tool) return forward_error(tool);
    const auto type = tool->text("type");
    if (!type) return std::unexpected(type.error());
    if (type->value_or("function") != "function")
      return wrong_value(tool->path_of("type"), tools[i]["type"], "\"function\"");
    auto function = tool->object("function");
    if (!function) return forward_error(function);
    if (!*function) return refuse_field(tool->path_of("function"), "missing");
    const auto name = (*function)->required_text("name");
    if (!name) return std::unexpected(name.error());
    if (!is_tool_name(*name)) return wrong_value((*function)->path_of("name"), Json(std::string(*name)), kToolNameForm);
    names.emplace_back(*name);
  }
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return std::unexpected(bad_request(fmt::format("Field 'tools': two tools are named '{}'", *twice), "tools"));
  std::string text = json_text(tools);
  if (text.size() > kMaxToolBytes)
    return std::unexpected(
        bad_request(fmt::format("Field 'tools': {} bytes, want at most {}", text.size(), kMaxToolBytes), "tools"));
  return text;
}

FieldResult<ChatPlan> plan_chat(ServedModel& model, ChatCall call) {
  const auto chat_template = model.chat_template();
  if (!chat_template) return std::unexpected(bad_request(chat_template.error().message()));
  auto prompt = render(**chat_template, call);
  if (!prompt) return forward_error(prompt);
  ChatPlan plan;
  plan.family = (*chat_template)->reply_family();
  plan.generation_prompt = prompt->generation_prompt;
  auto tools = callable_tools(call);
  if (!tools) return forward_error(tools);
  plan.tools = std::move(*tools);
  const text::MarkedText& rendered = prompt->prompt;
  auto tokens =
      model.tokenizer().tokenize(rendered.text, {.add_special = true, .parse_special = true, .given = rendered.given});
  if (!tokens) return std::unexpected(field_error_of(tokens.error(), "messages"));
  if (tokens->empty()) return std::unexpected(bad_request("Field 'messages': the prompt has no tokens", "messages"));
  plan.prompt = std::move(prompt->prompt.text);
  auto grammar = reply_grammar_of(model, call, plan);
  if (!grammar) return forward_error(grammar);
  plan.reply = {.reasoning = call.reasoning,
                .parallel_calls = call.allows_parallel_calls,
                .seed = (static_cast<uint64_t>(std::random_device()()) << 32) | std::random_device()()};
  auto limit = reasoning_limit(model, plan, call.fields);
  if (!limit) return forward_error(limit);
  plan.generation.reasoning = std::move(*limit);
  draw_seed(call.fields);
  plan.generation.prompts.push_back(std::move(*tokens));
  plan.generation.grammar = std::move(*grammar);
  plan.generation.n_probs = call.n_probs;
  plan.generation.fields = std::move(call.fields);
  // They are part of the reply's grammar.
  plan.generation.fields.grammar.clear();
  plan.generation.fields.json_schema.clear();
  return plan;
}

void answer_input_tokens(Exchange& exchange, const ChatPlan& plan) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("input_tokens", plan.generation.prompts.front().size());
  writer.member("object", "response.input_tokens").end_object();
  exchange.answer({.body = std::move(answer)});
}

}  // namespace tessera::server
