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

// Converts valid JSON to literals, token by token. Quotes are marks in some families, so they are trusted.
class LiteralWriter {
 public:
  LiteralWriter(const LiteralForm& form, MarkedTextBuilder& out) : form_(form), out_(out) {}

  void write(std::string_view json) {
    while (!json.empty()) json.remove_prefix(write_token(json));
  }

 private:
  // Returns the length of the token at the front of json.
  size_t write_token(std::string_view json) {
    switch (json.front()) {
      case '"':
        return write_string(json);
      case 'n':
        out_.append(form_.null_word);
        return 4;
      case 't':
        out_.append(form_.true_word);
        return 4;
      case 'f':
        out_.append(form_.false_word);
        return 5;
      case ',':
        out_.append(form_.comma);
        return 1;
      case ':':
        out_.append(form_.colon);
        return 1;
      default:
        break;
    }
    if (kJsonBlanks.find(json.front()) == kJsonBlanks.npos) out_.append(json.substr(0, 1), Origin::given);
    return 1;
  }

  size_t write_string(std::string_view json) {
    std::string text;
    JsonStringReader reader;
    const size_t n = 1 + reader.read(json.substr(1), &text).n_bytes;
    const bool is_key = trim_json(json.substr(n)).starts_with(':');
    if (!form_.has_bare_keys) {
      out_.append(json_quoted(text), Origin::given);
      return n;
    }
    if (!is_key) out_.append(form_.quote);
    out_.append(text, Origin::given);
    if (!is_key) out_.append(form_.quote);
    return n;
  }

  const LiteralForm& form_;
  MarkedTextBuilder& out_;
};

class CallWriter {
 public:
  explicit CallWriter(const ReplyFamily& family) : family_(family), line_break_(family.writes_breaks ? "\n" : "") {}

  Result<MarkedText> write(std::span<const ToolCall> calls) {
    if (!family_.writes_sections) open_section();
    if (family_.writes_list) open_list();
    for (const ToolCall& call : calls) write_one(call);
    if (family_.writes_list) close_list();
    if (!family_.writes_sections) close_section();
    if (out_.overflowed()) return fail(ErrorCode::limit, "calls above {} bytes", MarkedTextBuilder::kMaxBytes);
    MarkedText written = std::move(out_).take();
    if (family_.writes_breaks && written.text.ends_with('\n')) written.text.pop_back();
    return written;
  }

 private:
  /// Appends text of the family.
  void mark(std::string_view text) { out_.append(text); }
  /// Appends text of a call.
  void give(std::string_view text) { out_.append(text, Origin::given); }

  void open_section() {
    if (!family_.section_begin.empty()) mark(family_.section_begin.front() + line_break_);
  }
  void close_section() {
    if (!family_.section_end.empty()) mark(family_.section_end.front() + line_break_);
  }

  void open_list() {
    std::string_view begin = family_.call_begin;
    if (begin.ends_with('[')) begin.remove_suffix(1);
    mark(begin);
    mark(line_break_);
    if (!family_.list_key.empty()) mark(fmt::format("{{{}: ", json_quoted(family_.list_key)));
    mark("[");
  }
  void close_list() {
    mark("]");
    mark(family_.list_key.empty() ? line_break_ + family_.call_end + line_break_ : "}");
  }

  void write_one(const ToolCall& call) {
    if (family_.writes_sections) open_section();
    if (family_.writes_list) {
      mark(n_calls_ == 0 ? "" : ", ");
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
    const bool has_own_line = has_json_shape() || family_.shape == ReplyShape::python;
    if (is_bare && n_calls_ > 0) mark(family_.separator + " ");
    mark(family_.call_begin);
    if (has_own_line) mark(line_break_);
    write_inside(call);
    if (has_own_line) mark(line_break_);
    mark(family_.call_end + line_break_);
  }

  bool has_json_shape() const { return family_.shape == ReplyShape::json || family_.shape == ReplyShape::key_json; }

  void write_inside(const ToolCall& call) {
    switch (family_.shape) {
      case ReplyShape::key_json:
        give(fmt::format("{{{}: {}}}", json_quoted(call.name), call.arguments));
        break;
      case ReplyShape::tagged_json:
        write_tagged_json(call);
        break;
      case ReplyShape::tagged_args:
        write_tagged_args(call);
        break;
      case ReplyShape::python:
        write_function(call, "(", ")", "=", kPythonForm);
        break;
      case ReplyShape::gemma:
        write_function(call, "{", "}", ":", kGemmaForm);
        break;
      default:
        write_json(call);
    }
  }

  void write_json(const ToolCall& call) {
    write_member("{", family_.name_keys.front(), json_quoted(call.name));
    write_member(", ", family_.arguments_key, call.arguments);
    if (!family_.id_key.empty() && !call.id.empty()) write_member(", ", family_.id_key, json_quoted(call.id));
    mark("}");
  }

  void write_member(std::string_view before, std::string_view key, std::string_view value) {
    mark(before);
    mark(json_quoted(key));
    mark(": ");
    give(value);
  }

  void write_tagged_json(const ToolCall& call) {
    if (!family_.id_end.empty()) {
      give(call.id);
      mark(family_.id_end);
    }
    const bool has_long_name = family_.name_is_in_id && !call.id.starts_with("functions.");
    give(has_long_name ? fmt::format("functions.{}:{}", call.name, n_calls_)
                       : (family_.name_is_in_id ? call.id : call.name));
    if (!family_.id_begin.empty()) {
      mark(family_.id_begin);
      give(call.id);
    }
    mark(family_.name_end);
    give(call.arguments);
    if (!family_.arguments_end.empty()) mark("\n" + family_.arguments_end);
  }

  void write_tagged_args(const ToolCall& call) {
    give(call.name);
    mark(family_.name_end + line_break_);
    const auto members = json_members(call.arguments);
    for (const JsonMember& member : *members) {
      const auto text = json_string(member.value);
      mark(family_.argument_begin);
      give(member.key);
      mark(name_end(text.has_value()));
      if (!family_.value_begin.empty()) mark(line_break_ + family_.value_begin);
      write_value(text ? std::string_view(*text) : member.value);
      write_argument_end(member.key);
      mark(line_break_);
    }
  }

  // Returns the mark after an argument's name that suits a string, or any other value.
  std::string_view name_end(bool is_text) const {
    const ArgumentTyping wanted = is_text ? ArgumentTyping::text : ArgumentTyping::json;
    const auto found = std::ranges::find(family_.argument_name_ends, wanted, &ArgumentNameEnd::typing);
    if (found != family_.argument_name_ends.end()) return found->mark;
    return family_.argument_name_ends.empty() ? std::string_view() : family_.argument_name_ends.front().mark;
  }

  void write_value(std::string_view value) {
    const bool needs_cdata = family_.has_cdata && value.find('<') != value.npos;
    const std::string_view line_break = family_.cuts_value_breaks && !needs_cdata ? "\n" : "";
    mark(needs_cdata ? "<![CDATA[" : line_break);
    give(value);
    mark(needs_cdata ? "]]>" : line_break);
  }

  void write_argument_end(std::string_view name) {
    const std::string_view end = family_.argument_end;
    const size_t place = end.find("{}");
    mark(end.substr(0, place));
    if (place == end.npos) return;
    give(name);
    mark(end.substr(place + 2));
  }

  void write_function(const ToolCall& call, std::string_view open, std::string_view close, std::string_view equals,
                      const LiteralForm& form) {
    give(call.name);
    mark(open);
    const auto members = json_members(call.arguments);
    for (size_t i = 0; i < members->size(); ++i) {
      const JsonMember& member = (*members)[i];
      if (i > 0) mark(form.comma);
      give(member.key);
      mark(equals);
      LiteralWriter(form, out_).write(member.value);
    }
    mark(close);
  }

  void write_harmony(const ToolCall& call) {
    if (n_calls_ > 0) mark(kHarmonyStart);
    mark(kHarmonyChannel);
    mark("commentary to=functions.");
    give(call.name);
    mark(" <|constrain|>json");
    mark(kHarmonyMessage);
    give(call.arguments);
    mark(family_.call_end);
  }

  const ReplyFamily& family_;
  const std::string line_break_;
  MarkedTextBuilder out_;
  size_t n_calls_ = 0;
};

}  // namespace

Result<MarkedText> write_calls(const ReplyFamily& family, std::span<const ToolCall> calls) {
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
