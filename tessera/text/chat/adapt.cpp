// The steps run in the order of the functions adapt_* in Adapter::run(). Each step looks at one capability.
#include "tessera/text/chat/adapt.h"

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/text/chat/call_writer.h"
#include "tessera/text/chat/special_templates.h"
#include "tessera/text/chat/value_tools.h"
#include "tessera/text/json_quoted.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/json_reader.h"
#include "tessera/text/template/print.h"
#include "tessera/text/template/runtime.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

using jinja::Dict;
using jinja::Heap;
using jinja::List;
using jinja::Value;

constexpr std::array<std::string_view, 6> kRoles{"system", "developer", "user", "assistant", "tool", "function"};

// A role that this engine knows is text of ours: templates build marks of it ('<|' + role + '|>').
Value trusted_role(Heap& heap, const Value& role) {
  if (!role.is_text()) return role;
  const auto known = std::ranges::find(kRoles, role.bytes());
  return known == kRoles.end() ? role : heap.text(*known);
}

bool is_role(const Value& message, std::string_view role) { return text_member(message, "role") == role; }

bool has_calls(const Value& message) {
  const Value calls = member_of(message, "tool_calls");
  return calls.is_sequence() && !calls.as_list().items.empty();
}

// Nine base-62 digits of a hash (FNV-1a), the lowest first: the form of ids that Mistral's templates accept.
std::string nine_digits(std::string_view id) {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : id) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  std::string digits;
  for (int i = 0; i < 9; ++i, hash /= kDigits.size()) digits += kDigits[hash % kDigits.size()];
  return digits;
}

bool is_nine_digits(std::string_view id) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
  return id.size() == 9 && std::ranges::all_of(id, is_digit);
}

// The text of a content: itself, or its parts on lines of their own.
Result<Value> content_text(jinja::Runtime& runtime, const Value& content) {
  if (content.is_text()) return content;
  MarkedTextBuilder text;
  if (content.is_sequence()) {
    for (const Value& part : content.as_list().items) {
      if (text.size() > 0) text.append("\n");
      const Value part_text = member_of(part, "text");
      if (part_text.is_text()) text.append(part_text.as_text());
    }
  }
  return runtime.text(text);
}

class Adapter {
 public:
  Adapter(Heap& heap, const ChatRequest& request, const AdaptTarget& target)
      : heap_(heap),
        request_(request),
        caps_(target.capabilities),
        template_(target.chat_template),
        family_(target.family),
        runtime_(heap, request.now) {}

  Result<AdaptedChat> run() {
    messages_ = &copy_messages(heap_, request_.messages).as_list();
    tools_ = request_.tools;
    const bool trims = wants_trimmed_contents(template_.source());
    for (size_t i = 0; i < messages_->items.size(); ++i) {
      if (trims) trim_contents(heap_, messages_->items[i]);
      adapt_role(messages_->items[i]);
      adapt_empty_content(messages_->items[i]);
      TESSERA_TRY(adapt_parts(messages_->items[i], i));
      TESSERA_TRY(adapt_calls(messages_->items[i], i));
      adapt_result(messages_->items[i]);
      adapt_reasoning(messages_->items[i]);
    }
    if (wants_folded_results(template_.source())) messages_ = fold_results(heap_, *messages_);
    TESSERA_TRY(adapt_tools());
    TESSERA_TRY(adapt_missing_calls());
    TESSERA_TRY(adapt_system());
    return AdaptedChat{Value::list(messages_), tools_};
  }

 private:
  /// A call of the conversation, for the results that name it by its id.
  struct KnownCall {
    std::string_view id;
    Value name;
  };

  void adapt_role(const Value& message) {
    if (is_role(message, "developer") && !caps_.developer) set_member(heap_, message, "role", heap_.text("system"));
  }

  void adapt_empty_content(const Value& message) {
    const Value content = member_of(message, "content");
    const bool is_empty = content.is_missing() || content.is_none() || (content.is_text() && content.bytes().empty());
    if (!is_empty) return;
    const bool wants_null = has_calls(message) && caps_.call_content == CallContent::null;
    set_member(heap_, message, "content", wants_null ? Value::none() : heap_.text(""));
  }

  // Parts become one text, or a text becomes one part.
  Result<> adapt_parts(const Value& message, size_t i) {
    const Value content = member_of(message, "content");
    if (content.is_text() && !caps_.string_content && caps_.typed_content) {
      const Value part = make_dict(heap_, {{"type", heap_.text("text")}, {"text", content}});
      set_member(heap_, message, "content", make_list(heap_, {part}));
      return {};
    }
    if (!content.is_sequence()) return {};
    const auto& parts = content.as_list().items;
    for (size_t k = 0; k < parts.size(); ++k) {
      if (!member_of(parts[k], "text").is_text())
        return fail(ErrorCode::invalid_argument, "messages[{}].content[{}]: not a part of type text", i, k);
    }
    if (caps_.typed_content) return {};
    TESSERA_ASSIGN(const Value joined, content_text(runtime_, content));
    set_member(heap_, message, "content", joined);
    return {};
  }

  // Forms of arguments, ids.
  Result<> adapt_calls(const Value& message, size_t i) {
    if (!has_calls(message)) return {};
    const auto& calls = member_of(message, "tool_calls").as_list().items;
    List* adapted = heap_.create_list();
    for (size_t k = 0; k < calls.size(); ++k) {
      if (!member_of(calls[k], "function").is(jinja::Kind::dict))
        return fail(ErrorCode::invalid_argument, "messages[{}].tool_calls[{}].function: missing", i, k);
      const Value call = copy_dict(heap_, calls[k]);
      const Value function = copy_dict(heap_, member_of(call, "function"));
      set_member(heap_, call, "function", function);
      if (member_of(call, "type").is_missing()) set_member(heap_, call, "type", heap_.text("function"));
      auto arguments = adapted_arguments(member_of(function, "arguments"));
      if (!arguments)
        return forward_error(arguments, fmt::format("messages[{}].tool_calls[{}].function.arguments", i, k));
      set_member(heap_, function, "arguments", *arguments);
      const Value id = member_of(call, "id");
      const std::string given_id = id.is_text() ? std::string(id.bytes()) : fmt::format("call{}_{}", i, k);
      set_member(heap_, call, "id", adapted_id(id.is_text() ? id : heap_.text(given_id)));
      calls_.push_back({id.is_text() ? id.bytes() : heap_.text(given_id).bytes(), member_of(function, "name")});
      adapted->items.push_back(call);
    }
    set_member(heap_, message, "tool_calls", Value::list(adapted));
    return {};
  }

  Value adapted_id(const Value& id) {
    if (!caps_.call_id_9 || is_nine_digits(id.bytes())) return id;
    return heap_.text(nine_digits(id.bytes()));
  }

  // An object as the client wrote it, or parsed, whichever the template shows. Without calls in the template the
  // generic form of a call wants an object.
  Result<Value> adapted_arguments(const Value& arguments) {
    Value object = arguments;
    if (arguments.is_missing() || arguments.is_none()) object = Value::dict(heap_.create_dict());
    if (arguments.is_text()) {
      TESSERA_ASSIGN(const auto parsed, jinja::parse_json(heap_, arguments.bytes(), Origin::given));
      object = parsed.value;
    }
    if (!object.is(jinja::Kind::dict)) return fail(ErrorCode::invalid_argument, "not a JSON object");
    if (caps_.arguments != ArgumentForm::text) return object;
    if (arguments.is_text()) return arguments;
    MarkedTextBuilder text;
    TESSERA_TRY(jinja::append_json(runtime_, object, {}, text));
    return runtime_.text(text);
  }

  void adapt_result(const Value& message) {
    if (!is_role(message, "tool")) return;
    const Value id = member_of(message, "tool_call_id");
    if (!id.is_text()) return;
    const auto call = std::ranges::find(calls_, id.bytes(), &KnownCall::id);
    if (call != calls_.end() && member_of(message, "name").is_missing()) set_member(heap_, message, "name", call->name);
    set_member(heap_, message, "tool_call_id", adapted_id(id));
  }

  // Other names of the reasoning.
  void adapt_reasoning(const Value& message) {
    const Value reasoning = member_of(message, "reasoning_content");
    if (!reasoning.is_text()) return;
    for (const std::string_view name : {"thinking", "reasoning"})
      if (template_.names_member(name) && member_of(message, name).is_missing())
        set_member(heap_, message, name, reasoning);
  }

  // A template without tools: their definitions become part of the system message.
  Result<> adapt_tools() {
    const bool has_tools = tools_.is_sequence() && !tools_.as_list().items.empty();
    if (!has_tools) {
      tools_ = Value();
      return {};
    }
    if (caps_.tools || !tool_alias(template_).empty()) return {};
    MarkedTextBuilder text;
    text.append("You can call these functions:\n");
    for (const Value& tool : tools_.as_list().items) {
      const Value function = member_of(tool, "function");
      TESSERA_TRY(jinja::append_json(runtime_, function.is_missing() ? tool : function, {}, text));
      text.append("\n");
    }
    const bool is_generic = !caps_.calls && family_.name == kGenericFamily;
    text.append(is_generic ? "\nTo call functions, reply with one JSON object and nothing else: "
                           : "\nTo call a function, reply in this form: ");
    TESSERA_ASSIGN(const std::string example, call_example());
    text.append(example);
    text.append("\nOtherwise reply in plain text.");
    TESSERA_ASSIGN(const Value instruction, runtime_.text(text));
    tools_ = Value();
    return add_to_system(instruction);
  }

  // A call of the function NAME in the form of the template, or else of its family.
  Result<std::string> call_example() const {
    if (caps_.calls) return caps_.call_example;
    const std::array<ToolCall, 1> call{{{"NAME", "{}", "ID"}}};
    TESSERA_ASSIGN(const MarkedText written, text::write_calls(family_, call));
    return written.text;
  }

  Result<> add_to_system(const Value& instruction) {
    if (!messages_->items.empty() && is_role(messages_->items[0], "system"))
      return append_content(messages_->items[0], "\n\n", instruction);
    const Value message = make_dict(heap_, {{"role", heap_.text("system")}, {"content", instruction}});
    messages_->items.insert(messages_->items.begin(), message);
    return {};
  }

  // Appends a separator and another content to that of a message. A message without text gets the other one alone.
  Result<> append_content(const Value& message, std::string_view separator, const Value& other) {
    TESSERA_ASSIGN(const Value before, content_text(runtime_, member_of(message, "content")));
    TESSERA_ASSIGN(const Value after, content_text(runtime_, other));
    MarkedTextBuilder joined;
    joined.append(before.as_text());
    if (joined.size() > 0) joined.append(separator);
    joined.append(after.as_text());
    TESSERA_ASSIGN(const Value whole, runtime_.text(joined));
    set_member(heap_, message, "content", whole);
    return {};
  }

  // A template without calls: calls and results become text of their messages.
  Result<> adapt_missing_calls() {
    if (caps_.calls) return {};
    const bool keeps_results = caps_.results_alone && family_.name != kGenericFamily;
    List* adapted = heap_.create_list();
    bool follows_results = false;
    for (const Value& message : messages_->items) {
      const bool is_result = is_role(message, "tool") && !keeps_results;
      if (is_result) {
        TESSERA_ASSIGN(const Value line, result_line(message));
        if (!follows_results) adapted->items.push_back(empty_user_message());
        TESSERA_TRY(append_content(adapted->items.back(), "\n", line));
      } else if (follows_results && is_role(message, "user")) {
        TESSERA_TRY(append_content(adapted->items.back(), "\n", member_of(message, "content")));
      } else {
        if (has_calls(message)) TESSERA_TRY(write_calls(message));
        adapted->items.push_back(message);
      }
      follows_results = is_result;
    }
    messages_ = adapted;
    return {};
  }

  Value empty_user_message() { return make_dict(heap_, {{"role", heap_.text("user")}, {"content", heap_.text("")}}); }

  Result<Value> result_line(const Value& message) {
    const Value name = member_of(message, "name");
    const Value result = make_dict(
        heap_, {{"name", name.is_missing() ? Value::none() : name}, {"content", member_of(message, "content")}});
    MarkedTextBuilder line;
    TESSERA_TRY(jinja::append_json(runtime_, make_dict(heap_, {{"tool_result", result}}), {}, line));
    return runtime_.text(line);
  }

  // Calls behind the text of the message, as the models of the family write them.
  Result<> write_calls(const Value& message) {
    std::vector<ToolCall> calls;
    for (const Value& call : member_of(message, "tool_calls").as_list().items) {
      const Value function = member_of(call, "function");
      MarkedTextBuilder arguments;
      TESSERA_TRY(jinja::append_json(runtime_, member_of(function, "arguments"), {}, arguments));
      calls.push_back({.name = std::string(text_member(function, "name")),
                       .arguments = std::move(arguments).take().text,
                       .id = std::string(text_member(call, "id"))});
    }
    TESSERA_ASSIGN(const MarkedText written, text::write_calls(family_, calls));
    set_member(heap_, message, "tool_calls", Value::none());
    const bool joins_text = !family_.call_begin.empty() && !family_.writes_breaks;
    return append_content(message, joins_text ? "" : "\n", heap_.text({written.text, written.given}));
  }

  // Templates without a system role get system texts in front of the next user message.
  Result<> adapt_system() {
    if (caps_.system) return {};
    List* adapted = heap_.create_list();
    Value waiting;  // the user message that collects system texts
    for (const Value& message : messages_->items) {
      if (is_role(message, "system")) {
        if (waiting.is_missing()) waiting = empty_user_message();
        TESSERA_TRY(append_content(waiting, "\n", member_of(message, "content")));
      } else if (!waiting.is_missing() && is_role(message, "user")) {
        TESSERA_TRY(append_content(waiting, "\n", member_of(message, "content")));
        set_member(heap_, message, "content", member_of(waiting, "content"));
        adapted->items.push_back(message);
        waiting = Value();
      } else {
        adapted->items.push_back(message);
      }
    }
    if (!waiting.is_missing()) adapted->items.push_back(waiting);
    messages_ = adapted;
    return {};
  }

  Heap& heap_;
  const ChatRequest& request_;
  const ChatCapabilities& caps_;
  const jinja::Template& template_;
  const ReplyFamily& family_;
  jinja::Runtime runtime_;
  List* messages_ = nullptr;
  Value tools_;
  std::vector<KnownCall> calls_;
};

}  // namespace

Value copy_messages(Heap& heap, const Value& messages) {
  List* copies = heap.create_list();
  for (const Value& message : messages.as_list().items) {
    const Value copy = copy_dict(heap, message);
    set_member(heap, copy, "role", trusted_role(heap, member_of(copy, "role")));
    copies->items.push_back(copy);
  }
  return Value::list(copies);
}

std::string_view tool_alias(const jinja::Template& chat_template) {
  if (chat_template.names_variable("tools")) return {};
  for (const std::string_view alias : {"xml_tools", "functions", "custom_tools", "available_tools"})
    if (chat_template.names_variable(alias)) return alias;
  return {};
}

Result<AdaptedChat> adapt_chat(Heap& heap, const ChatRequest& request, const AdaptTarget& target) {
  return Adapter(heap, request, target).run();
}

}  // namespace tessera::text
