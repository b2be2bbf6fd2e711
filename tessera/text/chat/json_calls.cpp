// Calls of the shapes json and key_json: an object per call, alone, in a list, or in a list inside an object.
#include <algorithm>
#include <array>

#include "tessera/text/chat/arguments_reader.h"
#include "tessera/text/chat/call_reader.h"
#include "tessera/text/chat/mark_set.h"

namespace tessera::text {
namespace {

class JsonCallReader final : public CallReader {
 public:
  JsonCallReader(const CallContext& context, const CallStart& start)
      : family_(context.family),
        sink_(context.sink),
        is_bare_(start.at == CallStart::At::bare),
        in_outer_(is_bare_ && !family_.list_key.empty()),
        end_(std::array{family_.call_end}) {
    if (is_bare_) sink_.hold_calls();
  }

  CallStep read(std::string_view text, bool is_last) override {
    if (at_ != At::key && at_ != At::string && at_ != At::arguments && at_ != At::other) {
      if (const size_t n = count_blanks(text); n > 0) return {CallStep::Kind::more, n};
    }
    switch (at_) {
      case At::begin:
        return begin(text.front());
      case At::element:
        return open_element(text.front());
      case At::first_key:
      case At::next_key:
        return open_key(text.front());
      case At::key:
        return read_key(text);
      case At::colon:
        if (text.front() != ':') return fail(0, kNotJson);
        at_ = At::value;
        return more(1);
      case At::value:
        return open_value(text.front());
      case At::string:
        return read_string(text);
      case At::arguments:
        return read_arguments(text);
      case At::other:
        return read_other(text);
      case At::comma:
        return read_comma(text.front());
      case At::next_element:
        return next_element(text.front());
      case At::outer_end:
        if (text.front() != '}') return fail(0, kNotJson);
        at_ = At::end;
        return settled(1);
      case At::end:
        return read_end(text, is_last);
    }
    return fail(0, kNotJson);
  }

 private:
  enum class At : uint8_t {
    begin,         // before the first bracket
    element,       // in the list, before a call
    first_key,     // after {
    next_key,      // after a comma in an object
    key,           // in a key
    colon,         // after a key
    value,         // after a colon
    string,        // in the name or the id
    arguments,     // in the arguments
    other,         // in any other value
    comma,         // after a value in an object
    next_element,  // after a call in the list
    outer_end,     // after the list, in the object around it
    end,           // after all calls
  };
  enum class Role : uint8_t { name, id, arguments, list, other };

  static CallStep more(size_t n) { return {CallStep::Kind::more, n}; }
  static CallStep settled(size_t n) { return {CallStep::Kind::settled, n}; }
  static CallStep fail(size_t n, std::string_view reason) { return {CallStep::Kind::failed, n, reason}; }

  CallStep begin(char c) {
    if (c == '{') {
      at_ = At::first_key;
      return more(1);
    }
    if (c != '[' || in_outer_) return fail(0, kNotJson);
    return open_list();
  }

  CallStep open_list() {
    in_list_ = true;
    in_outer_ = false;
    at_ = At::element;
    return more(1);
  }

  CallStep open_element(char c) {
    if (c == ']') return close_list();  // an empty list, or a comma after the last call
    if (c != '{') return fail(0, kNotJson);
    at_ = At::first_key;
    return more(1);
  }

  CallStep open_key(char c) {
    if (c == '}' && at_ == At::first_key) return close_object();
    if (c != '"') return fail(0, kNotJson);
    at_ = At::key;
    text_.clear();
    string_ = {};
    return more(1);
  }

  CallStep read_key(std::string_view text) {
    const JsonProgress progress = string_.read(text, &text_);
    if (progress.state == JsonState::bad) return fail(progress.n_bytes, kNotJson);
    if (progress.state == JsonState::more) return more(progress.n_bytes);
    at_ = At::colon;
    role_ = role_of_key();
    const bool is_foreign = role_ == Role::other && is_bare_ && !is_one_of(text_, family_.known_keys);
    return is_foreign ? fail(progress.n_bytes, kBadForm) : more(progress.n_bytes);
  }

  Role role_of_key() {
    if (in_outer_) return text_ == family_.list_key ? Role::list : Role::other;
    if (family_.shape == ReplyShape::key_json) {
      name_ = text_;
      return Role::arguments;
    }
    // Of a key that occurs twice, the first value counts.
    if (is_one_of(text_, family_.name_keys) && name_.empty()) return Role::name;
    if (text_ == family_.arguments_key && !has_arguments_) return Role::arguments;
    return !family_.id_key.empty() && text_ == family_.id_key && id_.empty() ? Role::id : Role::other;
  }

  static bool is_one_of(std::string_view text, const Marks& known) {
    return std::ranges::find(known, text) != known.end();
  }

  CallStep open_value(char c) {
    text_.clear();
    if (role_ == Role::list) return c == '[' ? open_list() : fail(0, kBadForm);
    if (role_ == Role::arguments) {
      has_arguments_ = true;
      arguments_ = {};
      at_ = At::arguments;
      if (family_.shape != ReplyShape::key_json) return more(0);
      if (name_.empty()) return fail(0, kNoName);
      return announce() ? more(0) : fail(0, kBadForm);
    }
    if (c == '"' && role_ != Role::other) {
      at_ = At::string;
      string_ = {};
      return more(1);
    }
    if (role_ == Role::name) return fail(0, kNoName);
    at_ = At::other;
    other_ = {};
    return more(0);
  }

  // Reads the name or the id.
  CallStep read_string(std::string_view text) {
    const JsonProgress progress = string_.read(text, &text_);
    if (progress.state == JsonState::bad) return fail(progress.n_bytes, kNotJson);
    if (progress.state == JsonState::more) return more(progress.n_bytes);
    at_ = At::comma;
    (role_ == Role::name ? name_ : id_) = text_;
    return announce_if_known(progress.n_bytes);
  }

  // Announces the call once the name is known, and the id if the family's calls have one.
  CallStep announce_if_known(size_t n) {
    const bool is_known = !name_.empty() && (family_.id_key.empty() || !id_.empty());
    return is_known && !announce() ? fail(n, kBadForm) : more(n);
  }

  CallStep read_arguments(std::string_view text) {
    std::string json;
    const JsonProgress progress = arguments_.read(text, json);
    if (is_announced_)
      sink_.add_arguments(json);
    else
      early_arguments_ += json;
    if (progress.state == JsonState::bad) return fail(progress.n_bytes, arguments_.is_too_deep() ? kTooDeep : kNotJson);
    if (progress.state == JsonState::done) at_ = At::comma;
    if (progress.state == JsonState::done && family_.shape == ReplyShape::key_json) end_call();
    return more(progress.n_bytes);
  }

  // Reads a value that has no meaning here, or an id that is not a string.
  CallStep read_other(std::string_view text) {
    const JsonProgress progress = other_.read(text);
    if (progress.state == JsonState::bad) return fail(progress.n_bytes, other_.is_too_deep() ? kTooDeep : kNotJson);
    if (role_ == Role::id) text_ += text.substr(0, progress.n_bytes);
    if (progress.state == JsonState::more) return more(progress.n_bytes);
    at_ = At::comma;
    if (role_ != Role::id) return more(progress.n_bytes);
    id_ = text_;
    return announce_if_known(progress.n_bytes);
  }

  CallStep read_comma(char c) {
    if (c == '}') return close_object();
    if (c != ',') return fail(0, kNotJson);
    at_ = At::next_key;
    return more(1);
  }

  CallStep close_object() {
    if (family_.shape != ReplyShape::key_json) {
      if (name_.empty()) return fail(1, kNoName);
      if (!is_announced_ && !announce()) return fail(1, kBadForm);
      if (!has_arguments_) sink_.add_arguments("{}");
      end_call();
    }
    at_ = in_list_ ? At::next_element : At::end;
    return is_bare_ && in_list_ ? more(1) : settled(1);
  }

  CallStep next_element(char c) {
    if (c == ']') return close_list();
    if (c != ',') return fail(0, kNotJson);
    at_ = At::element;
    return is_bare_ ? more(1) : settled(1);
  }

  CallStep close_list() {
    at_ = is_bare_ && !family_.list_key.empty() ? At::outer_end : At::end;
    return at_ == At::outer_end ? more(1) : settled(1);
  }

  CallStep read_end(std::string_view text, bool is_last) {
    if (is_bare_ && text.front() == '{' && !in_list_) {
      at_ = At::begin;
      return more(0);
    }
    if (is_bare_ && !in_list_ && !family_.separator.empty() && text.starts_with(family_.separator)) {
      at_ = At::begin;
      return more(family_.separator.size());
    }
    const MarkSet::Look look = end_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    return {CallStep::Kind::closed, look.kind == MarkSet::Kind::mark ? look.n_bytes : 0};
  }

  bool announce() {
    if (!sink_.begin_call(name_, id_)) return false;
    is_announced_ = true;
    if (!early_arguments_.empty()) sink_.add_arguments(early_arguments_);
    early_arguments_.clear();
    return true;
  }

  void end_call() {
    sink_.end_call();
    name_.clear();
    id_.clear();
    is_announced_ = has_arguments_ = false;
  }

  const ReplyFamily& family_;
  CallSink& sink_;
  const bool is_bare_;
  bool in_outer_;  // in the object around the list
  MarkSet end_;
  At at_ = At::begin;
  Role role_ = Role::other;
  bool in_list_ = false;
  bool is_announced_ = false;
  bool has_arguments_ = false;
  std::string text_;  // a key, a name or an id so far
  std::string name_;
  std::string id_;
  std::string early_arguments_;  // read before the call was announced
  JsonStringReader string_;
  JsonReader other_;
  ArgumentsReader arguments_;
};

}  // namespace

std::unique_ptr<CallReader> create_json_reader(const CallContext& context, const CallStart& start) {
  return std::make_unique<JsonCallReader>(context, start);
}

}  // namespace tessera::text
