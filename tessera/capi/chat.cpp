// tessera.h: chat templates, and the replies of models.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"
#include "tessera/engine/chat_template_loader.h"
#include "tessera/text/chat/builtin_templates.h"
#include "tessera/text/chat/reply_parser.h"
#include "tessera/text/json_quoted.h"
#include "tessera/text/template/json_reader.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_render_options kRenderDefaults = {};
constexpr tessera_reply_options kReplyDefaults = {};

Result<> require_choice(int32_t value, int32_t last, std::string_view name) {
  if (value >= 0 && value <= last) return {};
  return fail(ErrorCode::invalid_argument, "{}: {}, want 0 to {}", name, value, last);
}

Result<std::string> own_template(const Engine& engine, bool has_tools) {
  TESSERA_ASSIGN(const auto source, load_chat_template(engine.files().metadata(), has_tools));
  if (source) return *source;
  return fail(ErrorCode::not_found, "the model has no chat template: give a name, such as chatml, or a template");
}

Result<std::string> named_template(std::string_view source) {
  if (const auto builtin = text::find_builtin_template(source)) return std::string(*builtin);
  if (source.contains('{')) return std::string(source);
  return fail(ErrorCode::not_found, "no chat template has the name {}, known: {}", text::json_quoted(source),
              fmt::join(text::builtin_template_names(), ", "));
}

std::tm local_time_of(int64_t seconds) {
  const std::time_t time = seconds == 0 ? std::time(nullptr) : static_cast<std::time_t>(seconds);
  std::tm local{};
  ::localtime_r(&time, &local);
  return local;
}

Result<text::jinja::Value> read_json(text::jinja::Heap& heap, std::string_view json, std::string_view name) {
  auto parsed = text::jinja::parse_json(heap, json, text::Origin::given);
  if (!parsed) return forward_error(parsed, name);
  return parsed->value;
}

Result<text::jinja::Value> read_optional_json(text::jinja::Heap& heap, const char* json, std::string_view name) {
  if (json == nullptr) return text::jinja::Value();
  return read_json(heap, json, name);
}

Result<text::ChatRequest> chat_request(text::jinja::Heap& heap, std::string_view messages,
                                       const tessera_render_options* options) {
  TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kRenderDefaults, "options"));
  TESSERA_TRY(capi::require_flags(wanted.flags,
                                  TESSERA_RENDER_NO_REPLY | TESSERA_RENDER_CONTINUE_LAST | TESSERA_RENDER_NO_CHANGES));
  TESSERA_TRY(require_choice(wanted.thinking, TESSERA_THINKING_OFF, "thinking"));
  text::ChatRequest request;
  TESSERA_ASSIGN(request.messages, read_json(heap, messages, "messages"));
  TESSERA_ASSIGN(request.tools, read_optional_json(heap, wanted.tools, "tools"));
  TESSERA_ASSIGN(request.documents, read_optional_json(heap, wanted.documents, "documents"));
  TESSERA_ASSIGN(request.variables, read_optional_json(heap, wanted.variables, "variables"));
  request.add_generation_prompt = (wanted.flags & TESSERA_RENDER_NO_REPLY) == 0;
  request.continues_last = (wanted.flags & TESSERA_RENDER_CONTINUE_LAST) != 0;
  request.adapts = (wanted.flags & TESSERA_RENDER_NO_CHANGES) == 0;
  if (wanted.thinking != TESSERA_THINKING_DEFAULT) request.enable_thinking = wanted.thinking == TESSERA_THINKING_ON;
  if (wanted.reasoning_effort != nullptr) request.reasoning_effort = wanted.reasoning_effort;
  request.now = local_time_of(wanted.time);
  return request;
}

Result<text::ChatPrompt> render(const tessera_template* chat_template, const char* messages, int64_t length,
                                const tessera_render_options* options) {
  TESSERA_TRY(capi::require(chat_template, "chat_template"));
  TESSERA_ASSIGN(const std::string_view given, capi::read_text(messages, length, "messages"));
  text::jinja::Heap heap;
  TESSERA_ASSIGN(const text::ChatRequest request, chat_request(heap, given, options));
  auto prompt = chat_template->chat_template.render(heap, request);
  if (prompt) return std::move(*prompt);
  const bool is_of_template = prompt.error().in_template.has_value();
  return fail(is_of_template ? ErrorCode::format : ErrorCode::invalid_argument, "{}", prompt.error().message);
}

text::Reply parse_reply(const text::ChatTemplate& chat_template, std::string_view given,
                        const std::vector<text::ReplyTool>& tools, const tessera_reply_options& options) {
  const text::ReplyOptions wanted{.reasoning = static_cast<text::ReasoningFormat>(options.reasoning),
                                  .parallel_calls = (options.flags & TESSERA_PARSE_ONE_CALL) == 0,
                                  .seed = options.seed};
  auto parser = text::ReplyParser::create(chat_template.reply_family(), tools,
                                          options.prompt == nullptr ? "" : options.prompt, wanted);
  text::Reply reply;
  text::join(reply, parser.feed(given));
  if (options.end == TESSERA_REPLY_GROWS) return reply;
  return parser.finish(options.end == TESSERA_REPLY_ENDED ? text::ReplyEnd::stop : text::ReplyEnd::length);
}

// A list as a member of an object, or nothing if it is empty.
template <class T, class Write>
std::string list_member(std::string_view name, const std::vector<T>& items, Write&& write) {
  std::string list;
  for (const T& item : items) list += fmt::format("{}{}", list.empty() ? "" : ", ", write(item));
  return list.empty() ? "" : fmt::format(", \"{}\": [{}]", name, list);
}

std::string message_json(const text::Reply& reply) {
  const auto write_call = [](const text::ToolCall& call) {
    return fmt::format("{{\"id\": {}, \"type\": \"function\", \"function\": {{\"name\": {}, \"arguments\": {}}}}}",
                       text::json_quoted(call.id), text::json_quoted(call.name), text::json_quoted(call.arguments));
  };
  std::string json = fmt::format("{{\"role\": \"assistant\", \"content\": {}", text::json_quoted(reply.content));
  if (!reply.reasoning.empty()) json += fmt::format(", \"reasoning_content\": {}", text::json_quoted(reply.reasoning));
  json += list_member("tool_calls", reply.calls, write_call);
  json += list_member("warnings", reply.warnings, text::json_quoted);
  return json + "}";
}

}  // namespace

tessera_status tessera_template_open(const tessera_model* model, const char* source, int64_t length, uint32_t flags,
                                     tessera_template** created, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(created, "created"));
    TESSERA_TRY(capi::require_flags(flags, TESSERA_TEMPLATE_FOR_TOOLS));
    std::string chosen;
    if (source == nullptr) {
      TESSERA_ASSIGN(chosen, own_template(*model->engine, (flags & TESSERA_TEMPLATE_FOR_TOOLS) != 0));
    } else {
      TESSERA_ASSIGN(const std::string_view given, capi::read_text(source, length, "source"));
      TESSERA_ASSIGN(chosen, named_template(given));
    }
    auto parsed = text::ChatTemplate::create(std::move(chosen), chat_tokens(model->engine->vocab()));
    if (!parsed) return fail(ErrorCode::format, "{}", parsed.error().text());
    *created = std::make_unique<tessera_template>(model, std::move(*parsed)).release();
    return {};
  });
}

tessera_template* tessera_template_retain(tessera_template* chat_template) { return capi::retain(chat_template); }
void tessera_template_release(tessera_template* chat_template) { capi::release(chat_template); }

void tessera_render_options_init(tessera_render_options* options, size_t size) {
  capi::write_sized(options, size, kRenderDefaults);
}

tessera_status tessera_template_render(const tessera_template* chat_template, const char* messages, int64_t length,
                                       const tessera_render_options* options, char* buffer, uint64_t room,
                                       uint64_t* needed, uint64_t* reply_at, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_ASSIGN(const text::ChatPrompt prompt, render(chat_template, messages, length, options));
    const std::string& text = prompt.prompt.text;
    TESSERA_TRY(capi::write_text(text, buffer, room, needed));
    const bool begins_reply = text.ends_with(prompt.generation_prompt);
    if (reply_at != nullptr) *reply_at = text.size() - (begins_reply ? prompt.generation_prompt.size() : 0);
    return {};
  });
}

tessera_status tessera_template_tokenize(const tessera_template* chat_template, const char* messages, int64_t length,
                                         const tessera_render_options* options, int32_t* tokens, uint64_t room,
                                         uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_ASSIGN(const text::ChatPrompt prompt, render(chat_template, messages, length, options));
    const text::TokenizeOptions special{.add_special = true, .parse_special = true, .given = prompt.prompt.given};
    TESSERA_ASSIGN(const std::vector<int32_t> ids,
                   chat_template->model->engine->tokenizer().tokenize(prompt.prompt.text, special));
    return capi::write_items(std::span(ids), tokens, room, needed, "tokens");
  });
}

void tessera_reply_options_init(tessera_reply_options* options, size_t size) {
  capi::write_sized(options, size, kReplyDefaults);
}

tessera_status tessera_reply_parse(const tessera_template* chat_template, const char* text, int64_t length,
                                   const tessera_reply_options* options, char* buffer, uint64_t room, uint64_t* needed,
                                   tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(chat_template, "chat_template"));
    TESSERA_ASSIGN(const std::string_view given, capi::read_text(text, length, "text"));
    TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kReplyDefaults, "options"));
    TESSERA_TRY(capi::require_flags(wanted.flags, TESSERA_PARSE_ONE_CALL));
    TESSERA_TRY(require_choice(wanted.end, TESSERA_REPLY_CUT, "end"));
    TESSERA_TRY(require_choice(wanted.reasoning, TESSERA_REASONING_BOTH, "reasoning"));
    std::vector<text::ReplyTool> tools;
    if (wanted.tools != nullptr) {
      TESSERA_ASSIGN(tools, text::parse_reply_tools(wanted.tools));
    }
    const text::Reply reply = parse_reply(chat_template->chat_template, given, tools, wanted);
    return capi::write_text(message_json(reply), buffer, room, needed);
  });
}
