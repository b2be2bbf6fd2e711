// Calls of the shape tagged_args: marks and a name, then marks, name and value of each argument. Values are text, which
// becomes JSON by the schema of the tool. The value of a string is handed over while it arrives.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/text/chat/call_reader.h"
#include "tessera/text/chat/json_reader.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/chat/mark_set.h"
#include "tessera/text/chat/nested_tags.h"
#include "tessera/text/json_quoted.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

class TaggedArgsReader final : public CallReader {
 public:
  TaggedArgsReader(const CallContext& context, const CallStart& start)
      : family_(context.family), tools_(context.tools), sink_(context.sink), between_(family_.section_end) {
    between_call_begin_ = between_.add(family_.call_begin);
    in_call_argument_ = in_call_.add(family_.argument_begin);
    in_call_.add(family_.call_end);
    if (family_.name_end.empty()) {
      name_end_ = name_.add("\n");
      name_.add(family_.argument_begin);
      name_.add(family_.call_end);
    } else {
      name_end_ = name_.add(family_.name_end);
    }
    for (const ArgumentNameEnd& end : family_.argument_name_ends) argument_name_.add(end.mark);
    value_begin_.add(family_.value_begin);
    value_start_.add(family_.has_cdata ? std::string(kCdataBegin) : "");
    cdata_end_.add(std::string(kCdataEnd));
    if (start.at == CallStart::At::call) begin_name();
  }

  CallStep read(std::string_view text, bool is_last) override {
    switch (at_) {
      case At::name:
        return read_name(text, is_last);
      case At::argument_name:
        return read_argument_name(text, is_last);
      case At::value_start:
        return start_value(text, is_last);
      case At::value:
        return read_value(text, is_last);
      default:
        break;
    }
    if (const size_t n = count_blanks(text); n > 0) return {CallStep::Kind::more, n};
    if (at_ == At::value_begin) return read_value_begin(text, is_last);
    if (at_ == At::in_call) return read_in_call(text, is_last);
    return read_between(text, is_last);
  }

 private:
  enum class At : uint8_t {
    section,        // after a mark of section_begin
    name,           // in the name
    in_call,        // after the name or an argument
    argument_name,  // in the name of an argument
    value_begin,    // before the mark in front of a value
    value_start,    // before the first byte of a value
    value,          // in a value
    between,        // after a call
  };

  static CallStep more(size_t n) { return {CallStep::Kind::more, n}; }
  static CallStep failed(size_t n, std::string_view reason) { return {CallStep::Kind::failed, n, reason}; }

  void begin_name() {
    at_ = At::name;
    part_.clear();
  }

  // Adds bytes to a name that ends at a mark.
  CallStep read_part(std::string_view text) {
    const size_t n_fitting = fitting_bytes(text, kMaxCallNameBytes - part_.size());
    if (n_fitting < text.size()) return failed(n_fitting, kNoName);
    part_ += text;
    return more(text.size());
  }

  CallStep read_name(std::string_view text, bool is_last) {
    if (const size_t n = count_blanks(text); n > 0 && part_.empty()) return more(n);
    const MarkSet::Look look = name_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    if (look.kind == MarkSet::Kind::text) return read_part(text.substr(0, look.n_bytes));
    tool_ = part_.substr(count_blanks(part_));
    tool_.erase(tool_.find_last_not_of(kJsonBlanks) + 1);
    if (tool_.empty()) return failed(0, kNoName);
    sink_.begin_call(tool_, "");
    n_arguments_ = 0;
    at_ = At::in_call;
    // The end mark of a name is read here. Any other mark is read again in the call.
    return more(look.mark == name_end_ ? look.n_bytes : 0);
  }

  CallStep read_in_call(std::string_view text, bool is_last) {
    const MarkSet::Look look = in_call_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    if (look.kind == MarkSet::Kind::text) return failed(0, kBadForm);
    if (look.mark == in_call_argument_) {
      at_ = At::argument_name;
      part_.clear();
      return more(look.n_bytes);
    }
    sink_.add_arguments(n_arguments_ == 0 ? "{}" : "}");
    sink_.end_call();
    at_ = At::between;
    return {CallStep::Kind::settled, look.n_bytes};
  }

  CallStep read_argument_name(std::string_view text, bool is_last) {
    const MarkSet::Look look = argument_name_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    if (look.kind == MarkSet::Kind::text) return read_part(text.substr(0, look.n_bytes));
    argument_ = part_;
    set_types(family_.argument_name_ends[look.mark].typing);
    sink_.add_arguments(fmt::format("{}{}: ", n_arguments_++ == 0 ? "{" : ", ", json_quoted(argument_)));
    at_ = family_.value_begin.empty() ? At::value_start : At::value_begin;
    set_value_end();
    return more(look.n_bytes);
  }

  void set_types(ArgumentTyping typing) {
    types_ = {};
    must_be_json_ = typing == ArgumentTyping::json;
    if (typing == ArgumentTyping::text) types_.add(JsonType::string);
    if (typing == ArgumentTyping::schema) types_ = tools_.types(tool_, argument_);
    is_text_ = types_.is_only_string();
  }

  void set_value_end() {
    std::string end = family_.argument_end;
    if (const size_t at = end.find("{}"); at != end.npos) end.replace(at, 2, argument_);
    value_end_ = MarkSet();
    value_end_.add(end);
    if (family_.cuts_value_breaks) value_end_.add("\n" + end);
    value_.clear();
    n_nested_ = 0;
    in_cdata_ = false;
    // Tags of the same name inside a value must not end it.
    nested_open_ = value_end_.add(
        family_.nested_mark.empty() || is_text_ ? "" : fmt::format("{}<{}>", family_.nested_mark, argument_));
  }

  CallStep read_value_begin(std::string_view text, bool is_last) {
    const MarkSet::Look look = value_begin_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    if (look.kind == MarkSet::Kind::text) return failed(0, kBadForm);
    at_ = At::value_start;
    return more(look.n_bytes);
  }

  CallStep start_value(std::string_view text, bool is_last) {
    const MarkSet::Look look = value_start_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    at_ = At::value;
    if (is_text_) sink_.add_arguments("\"");
    in_cdata_ = look.kind == MarkSet::Kind::mark;
    if (in_cdata_) return more(look.n_bytes);
    return more(family_.cuts_value_breaks && text.front() == '\n' ? 1 : 0);
  }

  CallStep read_value(std::string_view text, bool is_last) {
    const MarkSet& marks = in_cdata_ ? cdata_end_ : value_end_;
    const MarkSet::Look look = marks.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    const bool is_mark = look.kind == MarkSet::Kind::mark;
    if (is_mark && in_cdata_) {
      in_cdata_ = false;
      return more(look.n_bytes);
    }
    const bool opens = is_mark && look.mark == nested_open_;
    if (!is_mark || opens || n_nested_ > 0) {
      if (is_mark) n_nested_ += opens ? 1 : -1;
      add_value(text.substr(0, look.n_bytes));
      return more(look.n_bytes);
    }
    end_value();
    at_ = At::in_call;
    return more(look.n_bytes);
  }

  void add_value(std::string_view text) {
    if (is_text_)
      sink_.add_arguments(json_escaped(text));
    else
      value_ += text;
  }

  void end_value() {
    if (is_text_) return sink_.add_arguments("\"");
    if (const auto nested = nested_tags_to_json(value_, family_.nested_mark)) return sink_.add_arguments(*nested);
    const TypedArgument typed = type_argument(value_, types_);
    if (!typed.fits || (must_be_json_ && !is_json(value_)))
      sink_.warn(fmt::format("argument does not fit its schema: {} of {}", quote_text(argument_), quote_text(tool_)));
    sink_.add_arguments(typed.json);
  }

  CallStep read_between(std::string_view text, bool is_last) {
    const MarkSet::Look look = between_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    if (look.kind == MarkSet::Kind::mark && look.mark == between_call_begin_) {
      begin_name();
      return more(look.n_bytes);
    }
    if (look.kind == MarkSet::Kind::mark) return {CallStep::Kind::closed, look.n_bytes};
    return at_ == At::section ? failed(0, kBadForm) : CallStep{CallStep::Kind::closed};
  }

  const ReplyFamily& family_;
  const ToolSet& tools_;
  CallSink& sink_;
  MarkSet between_, name_, in_call_, argument_name_, value_begin_, value_start_, value_end_, cdata_end_;
  size_t between_call_begin_ = 0, in_call_argument_ = 0, name_end_ = 0, nested_open_ = 0;
  At at_ = At::section;
  std::string part_;  // a name so far
  std::string tool_;
  std::string argument_;
  JsonTypes types_;
  bool must_be_json_ = false;
  bool is_text_ = false;  // the value is a string
  bool in_cdata_ = false;
  std::string value_;     // the value so far, if it is not a string
  int64_t n_nested_ = 0;  // open tags of the argument's name inside its value
  size_t n_arguments_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> create_tagged_args_reader(const CallContext& context, const CallStart& start) {
  return std::make_unique<TaggedArgsReader>(context, start);
}

}  // namespace tessera::text
