// Calls of the shape tagged_json: marks and a name, then a JSON object. Harmony messages to a tool begin at the object.
#include "tessera/text/chat/arguments_reader.h"
#include "tessera/text/chat/call_reader.h"
#include "tessera/text/chat/mark_set.h"

namespace tessera::text {
namespace {

class TaggedJsonReader final : public CallReader {
 public:
  TaggedJsonReader(const CallContext& context, const CallStart& start)
      : family_(context.family), sink_(context.sink), between_(family_.section_end) {
    between_call_begin_ = between_.add(family_.has_recipients ? "" : family_.call_begin);
    name_end_ = name_.add(family_.name_end);
    id_end_ = name_.add(family_.id_end);
    name_.add(family_.id_begin);
    arguments_end_ = after_.add(family_.arguments_end);
    after_.add(family_.call_end);
    call_end_.add(family_.call_end);
    if (start.at == CallStart::At::call) begin_name();
    if (start.at == CallStart::At::arguments) {
      name_text_ = start.name;
      at_ = At::announce;
    }
  }

  CallStep read(std::string_view text, bool is_last) override {
    switch (at_) {
      case At::name:
        return read_name(text, is_last);
      case At::announce:
        return announce();
      case At::arguments:
        return read_arguments(text);
      default:
        break;
    }
    if (const size_t n = count_blanks(text); n > 0) return {CallStep::Kind::more, n};
    if (at_ == At::after || at_ == At::call_end) return read_after(text, is_last);
    return read_between(text, is_last);
  }

 private:
  enum class At : uint8_t {
    section,    // after a mark of section_begin
    name,       // in the name, or in an id beside it
    announce,   // after the name
    arguments,  // in the JSON object
    after,      // after the object
    call_end,   // after arguments_end
    between,    // after a call
  };

  static CallStep failed(size_t n, std::string_view reason) { return {CallStep::Kind::failed, n, reason}; }

  void begin_name() {
    at_ = At::name;
    part_.clear();
    name_text_.clear();
    id_.clear();
    in_id_ = !family_.id_end.empty();
  }

  CallStep read_name(std::string_view text, bool is_last) {
    const MarkSet::Look look = name_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    if (look.kind == MarkSet::Kind::text) {
      const size_t n_fitting = fitting_bytes(text.substr(0, look.n_bytes), kMaxCallNameBytes - part_.size());
      if (n_fitting < look.n_bytes) return failed(n_fitting, kNoName);
      part_ += text.substr(0, look.n_bytes);
      return {CallStep::Kind::more, look.n_bytes};
    }
    (in_id_ ? id_ : name_text_) = part_;
    part_.clear();
    in_id_ = look.mark != name_end_ && look.mark != id_end_;  // after id_begin
    if (look.mark == name_end_) at_ = At::announce;
    return {CallStep::Kind::more, look.n_bytes};
  }

  CallStep announce() {
    if (family_.name_is_in_id) {
      id_ = name_text_;
      take_name_from_id();
    }
    name_text_.erase(0, count_blanks(name_text_));
    name_text_.erase(name_text_.find_last_not_of(kJsonBlanks) + 1);
    if (name_text_.empty()) return failed(0, kNoName);
    sink_.begin_call(name_text_, id_);
    arguments_ = {};
    at_ = At::arguments;
    return {CallStep::Kind::more, 0};
  }

  // "functions.get_time:0" names get_time. Without the prefix or the number, the name is what is there.
  void take_name_from_id() {
    constexpr std::string_view kPrefix = "functions.";
    if (name_text_.starts_with(kPrefix)) name_text_.erase(0, kPrefix.size());
    const size_t colon = name_text_.rfind(':');
    if (colon != name_text_.npos && name_text_.find_first_not_of("0123456789", colon + 1) == name_text_.npos)
      name_text_.erase(colon);
  }

  CallStep read_arguments(std::string_view text) {
    std::string json;
    const JsonProgress progress = arguments_.read(text, json);
    sink_.add_arguments(json);
    if (progress.state == JsonState::bad)
      return failed(progress.n_bytes, arguments_.is_too_deep() ? kTooDeep : kNotJson);
    if (progress.state == JsonState::more) return {CallStep::Kind::more, progress.n_bytes};
    sink_.end_call();
    at_ = At::after;
    return {CallStep::Kind::settled, progress.n_bytes};
  }

  // Reads the marks after the object. All of them may be missing.
  CallStep read_after(std::string_view text, bool is_last) {
    const MarkSet& marks = at_ == At::after ? after_ : call_end_;
    const MarkSet::Look look = marks.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    const bool is_mark = look.kind == MarkSet::Kind::mark;
    at_ = is_mark && at_ == At::after && look.mark == arguments_end_ ? At::call_end : At::between;
    return {is_mark ? CallStep::Kind::settled : CallStep::Kind::more, is_mark ? look.n_bytes : 0};
  }

  CallStep read_between(std::string_view text, bool is_last) {
    const MarkSet::Look look = between_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {CallStep::Kind::wait};
    if (look.kind == MarkSet::Kind::mark && look.mark == between_call_begin_) {
      begin_name();
      return {CallStep::Kind::more, look.n_bytes};
    }
    if (look.kind == MarkSet::Kind::mark) return {CallStep::Kind::closed, look.n_bytes};
    return at_ == At::section ? failed(0, kBadForm) : CallStep{CallStep::Kind::closed};
  }

  const ReplyFamily& family_;
  CallSink& sink_;
  MarkSet between_, name_, after_, call_end_;
  size_t between_call_begin_ = 0, name_end_ = 0, id_end_ = 0, arguments_end_ = 0;
  At at_ = At::section;
  bool in_id_ = false;
  std::string part_;  // the name or the id so far
  std::string name_text_;
  std::string id_;
  ArgumentsReader arguments_;
};

}  // namespace

std::unique_ptr<CallReader> create_tagged_json_reader(const CallContext& context, const CallStart& start) {
  return std::make_unique<TaggedJsonReader>(context, start);
}

}  // namespace tessera::text
