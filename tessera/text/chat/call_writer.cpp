#include "tessera/text/chat/call_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/text/chat/json_reader.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/chat/reply_marks.h"
#include "tessera/text/json_quoted.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

// The constants and quotes of a literal syntax. A word of JSON becomes the text beside it.
struct LiteralForm {
  std::string_view quote;
  std::string_view null_word;
  std::string_view true_word;
  std::string_view false_word;
  std::string_view comma;
  std::string_view colon;
  bool has_bare_keys;
};

constexpr LiteralForm kPythonForm{"\"", "None", "True", "False", ", ", ": ", false};
constexpr LiteralForm kGemmaForm{"<|\"|>", "null", "true", "false", ",", ":", true};

// Converts valid JSON to literals, token by token.
class LiteralWriter {
 public:
  explicit LiteralWriter(const LiteralForm& form) : form_(form) {}

  std::string write(std::string_view json) {
    while (!json.empty()) json.remove_prefix(write_token(json));
    return std::move(out_);
  }

 private:
  // Returns the length of the token at the front of json.
  size_t write_token(std::string_view json) {
    switch (json.front()) {
      case '"':
        return write_string(json);
      case 'n':
        out_ += form_.null_word;
        return 4;
      case 't':
        out_ += form_.true_word;
        return 4;
      case 'f':
        out_ += form_.false_word;
        return 5;
      case ',':
        out_ += form_.comma;
        return 1;
      case ':':
        out_ += form_.colon;
        return 1;
      default:
        break;
    }
    if (kJsonBlanks.find(json.front()) == kJsonBlanks.npos) out_ += json.front();
    return 1;
  }

  size_t write_string(std::string_view json) {
    std::string text;
    JsonStringReader reader;
    const size_t n = 1 + reader.read(json.substr(1), &text).n_bytes;
    const bool is_key = trim_json(json.substr(n)).starts_with(':');
    if (!form_.has_bare_keys)
      out_ += json_quoted(text);
    else if (is_key)
      out_ += text;
    else
      out_.append(form_.quote).append(text).append(form_.quote);
    return n;
  }

  const LiteralForm& form_;
  std::string out_;
};

std::string write_literal(std::string_view json, const LiteralForm& form) { return LiteralWriter(form).write(json); }

class CallWriter {
 public:
  explicit CallWriter(const ReplyFamily& family) : family_(family), line_break_(family.writes_breaks ? "\n" : "") {}

  std::string write(std::span<const ToolCall> calls) {
    if (!family_.writes_sections) open_section();
    if (family_.writes_list) open_list();
    for (const ToolCall& call : calls) write_one(call);
    if (family_.writes_list) close_list();
    if (!family_.writes_sections) close_section();
    if (family_.writes_breaks && out_.ends_with('\n')) out_.pop_back();
    return std::move(out_);
  }

 private:
  void open_section() {
    if (!family_.section_begin.empty()) out_ += family_.section_begin.front() + line_break_;
  }
  void close_section() {
    if (!family_.section_end.empty()) out_ += family_.section_end.front() + line_break_;
  }

  void open_list() {
    std::string mark = family_.call_begin;
    if (mark.ends_with('[')) mark.pop_back();
    out_ += mark + line_break_;
    if (!family_.list_key.empty()) out_ += fmt::format("{{{}: ", json_quoted(family_.list_key));
    out_ += '[';
  }
  void close_list() {
    out_ += ']';
    if (!family_.list_key.empty())
      out_ += '}';
    else
      out_ += line_break_ + family_.call_end + line_break_;
  }

  void write_one(const ToolCall& call) {
    if (family_.writes_sections) open_section();
    if (family_.writes_list) {
      out_ += n_calls_ == 0 ? "" : ", ";
      write_inside(call);
    } else if (family_.shape == ReplyShape::harmony) {
      write_harmony(call);
    } else {
      write_marked(call);
    }
    if (family_.writes_sections) close_section();
    ++n_calls_;
  }

  void write_marked(const ToolCall& call) {
    const bool is_bare = family_.call_begin.empty();
    if (is_bare && n_calls_ > 0) out_ += family_.separator + " ";
    out_ += family_.call_begin;
    if (has_json_shape() || family_.shape == ReplyShape::python) out_ += line_break_;
    write_inside(call);
    if (has_json_shape() || family_.shape == ReplyShape::python) out_ += line_break_;
    out_ += family_.call_end + line_break_;
  }

  bool has_json_shape() const { return family_.shape == ReplyShape::json || family_.shape == ReplyShape::key_json; }

  void write_inside(const ToolCall& call) {
    switch (family_.shape) {
      case ReplyShape::key_json:
        out_ += fmt::format("{{{}: {}}}", json_quoted(call.name), call.arguments);
        break;
      case ReplyShape::tagged_json:
        write_tagged_json(call);
        break;
      case ReplyShape::tagged_args:
        write_tagged_args(call);
        break;
      case ReplyShape::python:
        write_function(call, '(', ')', "=", kPythonForm);
        break;
      case ReplyShape::gemma:
        write_function(call, '{', '}', ":", kGemmaForm);
        break;
      default:
        write_json(call);
    }
  }

  void write_json(const ToolCall& call) {
    out_ += fmt::format("{{{}: {}, {}: {}", json_quoted(family_.name_keys.front()), json_quoted(call.name),
                        json_quoted(family_.arguments_key), call.arguments);
    if (!family_.id_key.empty() && !call.id.empty())
      out_ += fmt::format(", {}: {}", json_quoted(family_.id_key), json_quoted(call.id));
    out_ += '}';
  }

  void write_tagged_json(const ToolCall& call) {
    if (!family_.id_end.empty()) out_ += call.id + family_.id_end;
    if (family_.name_is_in_id)
      out_ += call.id.starts_with("functions.") ? call.id : fmt::format("functions.{}:{}", call.name, n_calls_);
    else
      out_ += call.name;
    if (!family_.id_begin.empty()) out_ += family_.id_begin + call.id;
    out_ += family_.name_end + call.arguments;
    if (!family_.arguments_end.empty()) out_ += "\n" + family_.arguments_end;
  }

  void write_tagged_args(const ToolCall& call) {
    out_ += call.name + family_.name_end + line_break_;
    const auto members = json_members(call.arguments);
    for (const JsonMember& member : *members) {
      const auto text = json_string(member.value);
      out_.append(family_.argument_begin).append(member.key).append(name_end(text.has_value()));
      out_ += line_break_in_name();
      out_ += family_.value_begin + value_text(text ? std::string_view(*text) : member.value);
      std::string end = family_.argument_end;
      if (const size_t at = end.find("{}"); at != end.npos) end.replace(at, 2, member.key);
      out_ += end + line_break_;
    }
  }

  std::string_view line_break_in_name() const {
    return family_.value_begin.empty() ? std::string_view() : std::string_view(line_break_);
  }

  // Returns the mark after an argument's name that suits a string, or any other value.
  std::string_view name_end(bool is_text) const {
    const ArgumentTyping wanted = is_text ? ArgumentTyping::text : ArgumentTyping::json;
    const auto found = std::ranges::find(family_.argument_name_ends, wanted, &ArgumentNameEnd::typing);
    if (found != family_.argument_name_ends.end()) return found->mark;
    return family_.argument_name_ends.empty() ? std::string_view() : family_.argument_name_ends.front().mark;
  }

  std::string value_text(std::string_view value) const {
    const bool needs_cdata = family_.has_cdata && value.find('<') != value.npos;
    if (needs_cdata) return fmt::format("<![CDATA[{}]]>", value);
    return family_.cuts_value_breaks ? fmt::format("\n{}\n", value) : std::string(value);
  }

  void write_function(const ToolCall& call, char open, char close, std::string_view equals, const LiteralForm& form) {
    out_ += call.name + open;
    const auto members = json_members(call.arguments);
    for (size_t i = 0; i < members->size(); ++i) {
      const JsonMember& member = (*members)[i];
      if (i > 0) out_ += form.comma;
      out_.append(member.key).append(equals).append(write_literal(member.value, form));
    }
    out_ += close;
  }

  void write_harmony(const ToolCall& call) {
    if (n_calls_ > 0) out_ += kHarmonyStart;
    out_ += fmt::format("{}commentary to=functions.{} <|constrain|>json{}{}{}", kHarmonyChannel, call.name,
                        kHarmonyMessage, call.arguments, family_.call_end);
  }

  const ReplyFamily& family_;
  const std::string line_break_;
  std::string out_;
  size_t n_calls_ = 0;
};

}  // namespace

Result<std::string> write_calls(const ReplyFamily& family, std::span<const ToolCall> calls) {
  if (family.shape == ReplyShape::text)
    return fail(ErrorCode::unsupported, "reply family '{}': has no calls", family.name);
  for (const ToolCall& call : calls) {
    if (!json_members(call.arguments))
      return fail(ErrorCode::invalid_argument, "arguments of {}: {}, want a JSON object", quote_text(call.name),
                  quote_text(call.arguments));
  }
  return CallWriter(family).write(calls);
}

}  // namespace tessera::text
