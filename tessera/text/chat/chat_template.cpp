#include "tessera/text/chat/chat_template.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/chat/adapt.h"
#include "tessera/text/chat/chat_check.h"
#include "tessera/text/chat/family_probe.h"
#include "tessera/text/chat/value_tools.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/clock.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/template/print.h"

namespace tessera::text {
namespace {

using jinja::Dict;
using jinja::Heap;
using jinja::List;
using jinja::Value;
using jinja::Variable;

/// Variables for a template, by name.
class Variables {
 public:
  /// Sets a variable, over a former value.
  void set(std::string_view name, const Value& value) {
    const auto known = std::ranges::find(all_, name, &Variable::name);
    if (known != all_.end()) {
      known->value = value;
    } else {
      all_.push_back({name, value});
    }
  }
  std::span<const Variable> all() const { return all_; }

 private:
  std::vector<Variable> all_;
};

void set_date(Heap& heap, std::string_view name, const std::tm& now, std::string_view format, Variables& variables) {
  if (const auto text = jinja::format_time(now, format)) variables.set(name, heap.text(*text));
}

// The switch of reasoning. The template's own name `thinking` is set only if the request asks.
void set_thinking(Heap& heap, const ChatRequest& request, const ChatCapabilities& caps, Variables& variables) {
  const bool is_off = request.reasoning_effort == "none";
  const bool is_on = !is_off && request.enable_thinking.value_or(caps.reasoning_marker);
  variables.set("enable_thinking", Value::boolean(is_on));
  if (request.enable_thinking || is_off) variables.set("thinking", Value::boolean(is_on));
  if (request.reasoning_effort && !is_off) variables.set("reasoning_effort", heap.text(*request.reasoning_effort));
}

// preserve_reasoning of the request under the names that templates use.
void set_preserved_reasoning(const Value& preserve, Variables& variables) {
  if (!preserve.is(jinja::Kind::boolean)) return;
  variables.set("preserve_thinking", preserve);
  for (const std::string_view name : {"clear_thinking", "truncate_history_thinking", "drop_thinking"})
    variables.set(name, Value::boolean(!preserve.as_boolean()));
}

// The functions of tools without the wrapper {"type": "function"}.
Value functions_of(Heap& heap, const Value& tools) {
  List* functions = heap.create_list();
  for (const Value& tool : tools.as_list().items) {
    const Value function = member_of(tool, "function");
    functions->items.push_back(function.is_missing() ? tool : function);
  }
  return Value::list(functions);
}

// Definitions under another name than `tools`: a list of functions, or for `functions` their JSON.
Result<> set_tool_alias(Heap& heap, std::string_view alias, const Value& tools, const std::tm& now,
                        Variables& variables) {
  const Value functions = functions_of(heap, tools);
  variables.set(alias, functions);
  if (alias != "functions") return {};
  jinja::Runtime runtime(heap, now);
  const jinja::JsonStyle style{.item_separator = ",", .indent = 4};
  MarkedTextBuilder json;
  TESSERA_TRY(jinja::append_json(runtime, functions, style, json));
  TESSERA_ASSIGN(const Value text, runtime.text(json));
  variables.set(alias, text);
  return {};
}

// The rule of transformers for a message that the reply continues: cut behind the last place of its content. Trailing
// blanks stay if the template kept them.
Result<size_t> cut_of_continued(std::string_view prompt, const Value& messages) {
  const auto& items = messages.as_list().items;
  Value content = items.empty() ? Value() : member_of(items.back(), "content");
  if (content.is_sequence()) {
    Value last;
    for (const Value& part : content.as_list().items)
      if (member_of(part, "text").is_text()) last = member_of(part, "text");
    content = last;
  }
  if (!content.is_text()) return fail(ErrorCode::invalid_argument, "the last message has no text to continue");
  const std::string_view text = content.bytes();
  const std::string_view without_left = text.substr(jinja::leading_space(text));
  const std::string_view stripped = without_left.substr(0, without_left.size() - jinja::trailing_space(without_left));
  const size_t place = jinja::find_last_text(prompt, stripped);
  if (place == std::string_view::npos)
    return fail(ErrorCode::invalid_argument, "the last message is not in the prompt, so it cannot be continued");
  const bool keeps_blanks = prompt.substr(place, without_left.size()) == text;
  return place + (keeps_blanks ? without_left.size() : stripped.size());
}

// Keeps the bytes [begin, end) of a text and its marks.
void crop(MarkedText& text, size_t begin, size_t end) {
  MarkedTextBuilder cropped;
  cropped.append_slice({text.text, text.given}, begin, end);
  text = std::move(cropped).take();
}

}  // namespace

std::expected<ChatTemplate, jinja::TemplateError> ChatTemplate::create(std::string source, ChatTokens tokens) {
  auto parsed = jinja::Template::parse(std::move(source));
  if (!parsed) return std::unexpected(std::move(parsed).error());
  ChatCapabilities capabilities = probe_capabilities(*parsed, tokens.bos, tokens.eos);
  ReplyFamily family = reply_family_of_source(parsed->source());
  if (family.name == kGenericFamily && capabilities.calls)
    family = probe_reply_family(*parsed, capabilities, tokens.bos, tokens.eos).value_or(std::move(family));
  return ChatTemplate(std::move(*parsed), std::move(tokens), std::move(capabilities), std::move(family));
}

std::expected<MarkedText, ChatError> ChatTemplate::render_once(Heap& heap, const ChatRequest& request,
                                                               bool add_generation_prompt) const {
  Variables variables;
  if (!request.adapts) {
    variables.set("messages", copy_messages(heap, request.messages));
    if (!request.tools.is_missing()) variables.set("tools", request.tools);
  } else {
    auto chat = adapt_chat(heap, request, {template_, capabilities_, family_});
    if (!chat) return std::unexpected(ChatError{chat.error().message()});
    variables.set("messages", chat->messages);
    variables.set("tools", chat->tools);
    set_thinking(heap, request, capabilities_, variables);
    const std::string_view alias = tool_alias(template_);
    if (!chat->tools.is_missing() && !alias.empty()) {
      const auto set = set_tool_alias(heap, alias, chat->tools, request.now, variables);
      if (!set) return std::unexpected(ChatError{set.error().message()});
    }
  }
  if (request.sets_dates) {
    set_date(heap, "date_string", request.now, "%d %b %Y", variables);
    set_date(heap, "datetime", request.now, "%b %d %Y", variables);
  }
  if (!request.documents.is_missing()) variables.set("documents", request.documents);
  variables.set("add_generation_prompt", Value::boolean(add_generation_prompt));
  variables.set("bos_token", heap.text(tokens_.bos));
  variables.set("eos_token", heap.text(tokens_.eos));
  if (request.variables.is(jinja::Kind::dict)) {
    set_preserved_reasoning(member_of(request.variables, "preserve_reasoning"), variables);
    for (const Dict::Entry& entry : request.variables.as_dict().entries)
      if (entry.key.bytes() != "messages" && entry.key.bytes() != "tools")
        variables.set(entry.key.bytes(), entry.value);
  }
  auto rendered = template_.render(heap, variables.all(), request.now);
  if (!rendered) return std::unexpected(ChatError{rendered.error().text(), rendered.error()});
  return std::move(rendered->prompt);
}

// The end of the prompt that add_generation_prompt added. It rarely depends on more than the last message, so that
// alone is tried before the whole conversation is rendered again.
std::string ChatTemplate::generation_prompt(Heap& heap, const ChatRequest& request, std::string_view prompt) const {
  const auto& messages = request.messages.as_list().items;
  if (messages.size() > 1) {
    ChatRequest last = request;
    last.messages = make_list(heap, {messages.back()});
    const auto with = render_once(heap, last, true), without = render_once(heap, last, false);
    const std::string_view added = with && without ? added_text(without->text, with->text) : std::string_view();
    if (!added.empty() && prompt.ends_with(added)) return std::string(added);
  }
  const auto without = render_once(heap, request, false);
  return without ? std::string(added_text(without->text, prompt)) : "";
}

// A token that the tokenizer adds is left out of the text.
void ChatTemplate::remove_added_tokens(MarkedText& prompt) const {
  const bool has_bos = tokens_.adds_bos && !tokens_.bos.empty() && prompt.text.starts_with(tokens_.bos);
  const bool has_eos = tokens_.adds_eos && !tokens_.eos.empty() && prompt.text.ends_with(tokens_.eos);
  const size_t begin = has_bos ? tokens_.bos.size() : 0;
  const size_t end = prompt.text.size() - (has_eos ? tokens_.eos.size() : 0);
  if (begin < end && end - begin < prompt.text.size()) crop(prompt, begin, end);
}

std::expected<ChatPrompt, ChatError> ChatTemplate::render(Heap& heap, const ChatRequest& request) const {
  if (const auto checked = check_chat(request); !checked) return std::unexpected(ChatError{checked.error().message()});
  auto prompt = render_once(heap, request, request.add_generation_prompt && !request.continues_last);
  if (!prompt) return std::unexpected(std::move(prompt).error());
  ChatPrompt result{std::move(*prompt), ""};
  if (request.continues_last) {
    const auto cut = cut_of_continued(result.prompt.text, request.messages);
    if (!cut) return std::unexpected(ChatError{cut.error().message()});
    crop(result.prompt, 0, *cut);
  } else if (request.add_generation_prompt) {
    result.generation_prompt = generation_prompt(heap, request, result.prompt.text);
  }
  remove_added_tokens(result.prompt);
  return result;
}

}  // namespace tessera::text
