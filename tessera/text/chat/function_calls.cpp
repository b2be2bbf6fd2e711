// Calls of the shapes python and gemma: a name, and named literals in brackets. Python calls may be in a list.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/text/chat/call_reader.h"
#include "tessera/text/chat/literal_reader.h"
#include "tessera/text/chat/mark_set.h"
#include "tessera/text/json_quoted.h"

namespace tessera::text {
namespace {

bool is_name_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '-' || c == ':' || static_cast<unsigned char>(c) >= 0x80;
}

/// The bytes around the arguments of a call.
struct FunctionSyntax {
  LiteralSyntax literals;
  char open;
  char close;
  char key_end;
};

constexpr FunctionSyntax kPython{LiteralSyntax::python, '(', ')', '='};
constexpr FunctionSyntax kGemma{LiteralSyntax::gemma, '{', '}', ':'};

class FunctionReader final : public CallReader {
 public:
  FunctionReader(const CallContext& context, const CallStart& start)
      : syntax_(context.family.shape == ReplyShape::gemma ? kGemma : kPython),
        sink_(context.sink),
        is_bare_(start.at == CallStart::At::bare),
        is_builtin_(start.at == CallStart::At::arguments),
        value_(syntax_.literals) {
    end_.add(is_builtin_ ? "" : context.family.call_end);
    if (is_bare_) sink_.hold_calls();
    if (is_builtin_) {
      name_ = start.name;
      at_ = At::announce;
    }
  }

  CallStep read(std::string_view text, bool is_last) override {
    if (at_ == At::value) return read_value(text, is_last);
    if (at_ == At::announce) return announce();
    if (const size_t n = at_ == At::name || at_ == At::key ? 0 : count_blanks(text); n > 0) return more(n);
    switch (at_) {
      case At::begin:
        return begin(text.front());
      case At::name:
        return read_name(text);
      case At::name_end:
        if (text.front() != syntax_.open) return failed(0, kBadForm);
        at_ = At::announce;
        return more(1);
      case At::first_key:
        if (text.front() == syntax_.close) return close_call();
        [[fallthrough]];
      case At::next_key:
        at_ = At::key;
        name_.clear();
        return more(0);
      case At::key:
        return read_key(text);
      case At::key_end:
        if (text.front() != syntax_.key_end) return failed(0, kBadForm);
        at_ = At::value;
        value_ = LiteralReader(syntax_.literals);
        return more(1);
      case At::comma:
        return read_comma(text.front());
      default:
        return read_after(text, is_last);
    }
  }

 private:
  enum class At : uint8_t {
    begin,      // before the list or the name
    name,       // in the name
    name_end,   // after the name
    announce,   // after the bracket that opens the arguments
    first_key,  // before the first argument
    next_key,   // after a comma
    key,        // in the name of an argument
    key_end,    // after the name of an argument
    value,      // in a value
    comma,      // after a value
    after,      // after a call
  };

  static CallStep more(size_t n) { return {CallStep::Kind::more, n}; }
  static CallStep failed(size_t n, std::string_view reason) { return {CallStep::Kind::failed, n, reason}; }

  CallStep begin(char c) {
    const bool opens_list = c == '[' && !in_list_ && syntax_.open == kPython.open;
    in_list_ = in_list_ || opens_list;
    if (opens_list) return more(1);
    if (c == ']' && in_list_) return close_list();
    at_ = At::name;
    name_.clear();
    return more(0);
  }

  // Adds bytes to a name, up to the first byte that is not part of it.
  CallStep add_to_name(std::string_view text, At next) {
    const size_t n = static_cast<size_t>(std::ranges::find_if_not(text, is_name_byte) - text.begin());
    return add_to_name(text, n, next);
  }

  CallStep add_to_name(std::string_view text, size_t n, At next) {
    const size_t n_fitting = fitting_bytes(text.substr(0, n), kMaxCallNameBytes - name_.size());
    if (n_fitting < n) return failed(n_fitting, kBadForm);
    name_ += text.substr(0, n);
    if (n == text.size()) return more(n);
    if (name_.empty()) return failed(n, kNoName);
    at_ = next;
    return more(n);
  }

  CallStep read_name(std::string_view text) { return add_to_name(text, At::name_end); }

  CallStep read_key(std::string_view text) {
    if (syntax_.literals == LiteralSyntax::python) return add_to_name(text, At::key_end);
    return add_to_name(text, std::min(text.find_first_of(":,{}[]"), text.size()), At::key_end);
  }

  CallStep announce() {
    if (!sink_.begin_call(name_, "", is_builtin_ ? CallSink::Tool::builtin : CallSink::Tool::given))
      return failed(0, kBadForm);
    n_arguments_ = 0;
    at_ = At::first_key;
    return more(0);
  }

  CallStep read_value(std::string_view text, bool is_last) {
    std::string json;
    if (!name_.empty()) json = fmt::format("{}{}: ", n_arguments_++ == 0 ? "{" : ", ", json_quoted(name_));
    name_.clear();
    const LiteralReader::Progress progress = value_.read(text, is_last, json);
    if (!json.empty()) sink_.add_arguments(json);
    if (progress.state == LiteralReader::State::wait) return {CallStep::Kind::wait};
    if (progress.state == LiteralReader::State::bad) return failed(progress.n_bytes, kBadForm);
    if (progress.state == LiteralReader::State::done) at_ = At::comma;
    return more(progress.n_bytes);
  }

  CallStep read_comma(char c) {
    if (c == syntax_.close) return close_call();
    if (c != ',') return failed(0, kBadForm);
    at_ = At::next_key;
    return more(1);
  }

  CallStep close_call() {
    sink_.add_arguments(n_arguments_ == 0 ? "{}" : "}");
    sink_.end_call();
    at_ = At::after;
    return {is_bare_ ? CallStep::Kind::more : CallStep::Kind::settled, 1};
  }

  CallStep close_list() {
    in_list_ = false;
    was_list_ = true;
    at_ = At::after;
    return {CallStep::Kind::settled, 1};
  }

  CallStep read_after(std::string_view text, bool is_last) {
    if (in_list_ && text.front() == ',') {
      at_ = At::begin;
      return {is_bare_ ? CallStep::Kind::more : CallStep::Kind::settled, 1};
    }
    if (in_list_ && text.front() == ']') return close_list();
    if (in_list_) return failed(0, kBadForm);
    const MarkSet::Look look = end_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    if (look.kind == MarkSet::Kind::mark) return {CallStep::Kind::closed, look.n_bytes};
    // Calls outside a list follow one another until the end mark.
    if (was_list_ || is_builtin_ || !is_name_byte(text.front()) || syntax_.open != kPython.open)
      return {CallStep::Kind::closed};
    at_ = At::begin;
    return more(0);
  }

  const FunctionSyntax syntax_;
  CallSink& sink_;
  const bool is_bare_;
  const bool is_builtin_;
  MarkSet end_;
  LiteralReader value_;
  At at_ = At::begin;
  bool in_list_ = false;
  bool was_list_ = false;
  std::string name_;  // of the call, then of an argument, so far
  size_t n_arguments_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> create_function_reader(const CallContext& context, const CallStart& start) {
  return std::make_unique<FunctionReader>(context, start);
}

}  // namespace tessera::text
