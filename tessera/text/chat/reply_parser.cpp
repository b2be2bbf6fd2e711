#include "tessera/text/chat/reply_parser.h"

#include <algorithm>
#include <utility>

#include "tessera/text/chat/harmony.h"
#include "tessera/text/chat/reply_marks.h"
#include "tessera/text/chat/reply_output.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

constexpr size_t kMaxHarmonyHeaderBytes = 256;

constexpr size_t kMaxCitationBytes = 256;

// With its marks in the content, reasoning ends only if it began.
ReasoningEnds ends_of(ReasoningFormat format) {
  return format == ReasoningFormat::none ? ReasoningEnds::unmarked : ReasoningEnds::marked;
}

// Whether the mark ends with a bracket that the reader of the calls reads as their first byte.
bool ends_with_first_byte(std::string_view mark, ReplyShape shape) {
  const bool is_json = shape == ReplyShape::json || shape == ReplyShape::key_json;
  return mark.ends_with('[') ? is_json || shape == ReplyShape::python : is_json && mark.ends_with('{');
}

}  // namespace

class ReplyParser::Machine {
 public:
  Machine(ReplyFamily family, std::span<const ReplyTool> tools, std::string_view prompt_tail,
          const ReplyOptions& options)
      : family_(std::move(family)),
        tools_(tools),
        output_(family_, tools_, options),
        marks_(family_, tools_, ends_of(options.reasoning)) {
    if (family_.has_recipients && prompt_tail.ends_with(family_.call_begin))
      marks_.add_recipients_at_start(family_, tools_);
    if (family_.shape == ReplyShape::harmony)
      read_harmony_tail(prompt_tail);
    else
      read_tail(prompt_tail);
  }

  void feed(std::string_view bytes) {
    output_.clear_deltas();
    partial_ += bytes;
    const size_t n = partial_.size() - n_incomplete_bytes(partial_);
    add_text(to_valid_utf8(std::string_view(partial_).substr(0, n)));
    partial_.erase(0, n);
  }

  Reply finish(ReplyEnd end) {
    output_.clear_deltas();
    add_text(to_valid_utf8(partial_));
    run(true);
    if (reader_) end_calls(end);
    if (at_ == At::header) output_.add_content(header_);
    output_.finish();
    return output_.take_reply();
  }

  std::span<const ReplyDelta> deltas() const { return output_.deltas(); }

 private:
  enum class At : uint8_t {
    start,  // only blanks so far, or only reasoning
    content,
    reasoning,
    calls,    // a reader has the text
    header,   // in the header of a harmony message
    ignored,  // in a harmony message for nobody
  };

  void read_tail(std::string_view tail);
  void read_harmony_tail(std::string_view tail);

  void add_text(std::string_view text);
  void run(bool is_last);
  bool step(std::string_view text, bool is_last);
  bool read_text(std::string_view text, bool is_last);
  bool read_mark(std::string_view text, const MarkSet::Look& look, bool is_last);
  bool read_reasoning(std::string_view text, bool is_last);
  bool read_citation_end(std::string_view text, size_t n_mark, bool is_last);
  bool read_calls(std::string_view text, bool is_last);
  bool read_header_begin(std::string_view text, bool is_last);
  bool read_header(std::string_view text, bool is_last);
  bool read_ignored(std::string_view text, bool is_last);
  void begin_calls(std::string_view mark, const CallStart& start);
  void end_calls(ReplyEnd end);
  void begin_header(std::string_view text);
  void end_header();
  void add_content(std::string_view text);
  void stop_parsing();

  const ReplyMarks& text_marks() const { return at_ == At::start ? marks_.start : marks_.content; }

  bool take(size_t n_bytes) {
    n_taken_ += n_bytes;
    return true;
  }

  const ReplyFamily family_;
  const ToolSet tools_;
  ReplyOutput output_;
  ReplyMarkTables marks_;

  At at_ = At::start;
  bool has_begun_content_ = false;  // a mark of content_begin was read
  bool had_reasoning_ = false;      // a block has begun, or the prompt has closed one
  std::string partial_;             // bytes of an incomplete code point
  std::string pending_;             // text that was not read yet
  size_t n_taken_ = 0;              // bytes of pending_ that were read
  size_t n_parsed_ = 0;             // bytes of the reply in valid UTF-8, up to kMaxParsedReplyBytes
  bool has_stopped_ = false;        // the limit was exceeded: the rest is content
  std::unique_ptr<CallReader> reader_;
  std::string call_text_;        // text since the last complete call
  std::string header_;           // text of a header so far
  bool is_header_open_ = false;  // the header may also turn out to be content at its first byte
};

void ReplyParser::Machine::read_tail(std::string_view tail) {
  if (family_.reasoning_end.empty()) return;
  const size_t end = tail.rfind(family_.reasoning_end);
  const size_t begin = family_.reasoning_begin.empty() ? tail.npos : tail.rfind(family_.reasoning_begin);
  had_reasoning_ = begin != tail.npos || end != tail.npos;
  if (begin != tail.npos && (end == tail.npos || end < begin)) at_ = At::reasoning;
}

// The prompt may have begun the header, or even the message.
void ReplyParser::Machine::read_harmony_tail(std::string_view tail) {
  const size_t start = tail.rfind(kHarmonyStart);
  begin_header("");
  if (start == tail.npos) return;
  header_ = tail.substr(start + kHarmonyStart.size()).substr(0, kMaxHarmonyHeaderBytes);
  is_header_open_ = header_.empty();
  const size_t message = header_.find(kHarmonyMessage);
  if (message == header_.npos) return;
  header_.erase(message);
  end_header();
}

void ReplyParser::Machine::add_text(std::string_view text) {
  if (has_stopped_) return output_.add_content(text);
  const size_t n = fitting_bytes(text, kMaxParsedReplyBytes - n_parsed_);
  n_parsed_ += n;
  pending_ += text.substr(0, n);
  run(false);
  if (n == text.size()) return;
  stop_parsing();
  output_.add_content(text.substr(n));
}

void ReplyParser::Machine::run(bool is_last) {
  n_taken_ = 0;
  while (n_taken_ < pending_.size() && step(std::string_view(pending_).substr(n_taken_), is_last)) {
  }
  pending_.erase(0, n_taken_);
  n_taken_ = 0;
}

// Reads from the front of the text. Returns false if more text is needed.
bool ReplyParser::Machine::step(std::string_view text, bool is_last) {
  switch (at_) {
    case At::start:
    case At::content:
      return read_text(text, is_last);
    case At::reasoning:
      return read_reasoning(text, is_last);
    case At::calls:
      return read_calls(text, is_last);
    case At::header:
      return read_header(text, is_last);
    case At::ignored:
      return read_ignored(text, is_last);
  }
  return false;
}

bool ReplyParser::Machine::read_text(std::string_view text, bool is_last) {
  if (const size_t n = at_ == At::start ? count_blanks(text) : 0; n > 0) {
    output_.add_content(text.substr(0, n));
    return take(n);
  }
  const MarkSet::Look look = text_marks().look(text, is_last);
  if (look.kind == MarkSet::Kind::wait) return false;
  if (look.kind == MarkSet::Kind::mark) return read_mark(text, look, is_last);
  // Marks of the start count only there: from the second code point on, the text is content.
  const size_t n_bytes = at_ == At::start ? next_code_point(text).n_bytes : look.n_bytes;
  add_content(text.substr(0, n_bytes));
  return take(n_bytes);
}

void ReplyParser::Machine::add_content(std::string_view text) {
  output_.add_content(text);
  at_ = At::content;
}

bool ReplyParser::Machine::read_mark(std::string_view text, const MarkSet::Look& look, bool is_last) {
  const ReplyMarkRule& rule = text_marks().rule(look);
  const std::string_view mark = text.substr(0, look.n_bytes);
  switch (rule.mark) {
    case ReplyMark::open_reasoning:
      if (had_reasoning_ && !family_.has_many_reasonings) break;
      output_.open_reasoning(mark);
      had_reasoning_ = true;
      at_ = At::reasoning;
      return take(mark.size());
    case ReplyMark::close_reasoning:
      if (had_reasoning_ || output_.has_calls()) break;
      output_.make_content_reasoning(mark);
      had_reasoning_ = true;
      at_ = At::start;
      return take(mark.size());
    case ReplyMark::content_begin:
      if (output_.has_content()) break;
      has_begun_content_ = true;
      [[fallthrough]];
    case ReplyMark::message_begin:
      at_ = At::content;
      return take(mark.size());
    case ReplyMark::content_end:
      if (!has_begun_content_ && !family_.content_begin.empty()) break;
      output_.end_message();
      return take(mark.size());
    case ReplyMark::citation:
      return take(mark.size());
    case ReplyMark::stray:
      output_.add_stray_mark(mark);
      return take(mark.size());
    case ReplyMark::citation_end:
      return read_citation_end(text, mark.size(), is_last);
    case ReplyMark::call:
      begin_calls(mark, rule.start);
      return true;
    case ReplyMark::header:
    case ReplyMark::channel:
      begin_header(rule.mark == ReplyMark::channel ? mark : "");
      return take(mark.size());
    case ReplyMark::end_of_message:
      output_.end_message();
      return take(mark.size());
  }
  // The mark has no meaning here.
  if (std::ranges::find(family_.stray_marks, mark) != family_.stray_marks.end())
    output_.add_stray_mark(mark);
  else
    add_content(mark);
  return take(mark.size());
}

bool ReplyParser::Machine::read_citation_end(std::string_view text, size_t n_mark, bool is_last) {
  const size_t end = text.substr(0, kMaxCitationBytes).find('>');
  if (end != text.npos) return take(end + 1);
  if (text.size() < kMaxCitationBytes && !is_last) return false;
  add_content(text.substr(0, n_mark));
  return take(n_mark);
}

bool ReplyParser::Machine::read_reasoning(std::string_view text, bool is_last) {
  const MarkSet::Look look = marks_.reasoning.look(text, is_last);
  if (look.kind == MarkSet::Kind::wait) return false;
  const std::string_view part = text.substr(0, look.n_bytes);
  if (look.kind == MarkSet::Kind::text) {
    output_.add_reasoning(part);
    return take(part.size());
  }
  output_.close_reasoning(part);
  at_ = At::start;
  const ReplyMark mark = marks_.reasoning.rule(look).mark;
  if (mark == ReplyMark::header || mark == ReplyMark::channel)
    begin_header(mark == ReplyMark::channel ? part : std::string_view());
  return take(part.size());
}

void ReplyParser::Machine::begin_calls(std::string_view mark, const CallStart& start) {
  const size_t n = mark.size() - (ends_with_first_byte(mark, family_.shape) ? 1 : 0);
  call_text_ = mark.substr(0, n);
  reader_ = create_call_reader({family_, tools_, output_}, start);
  at_ = At::calls;
  take(n);
}

bool ReplyParser::Machine::read_calls(std::string_view text, bool is_last) {
  const CallStep step = reader_->read(text, is_last);
  if (step.kind == CallStep::Kind::wait) return false;
  call_text_ += text.substr(0, step.n_bytes);
  const bool is_settled =
      step.kind == CallStep::Kind::settled || (step.kind == CallStep::Kind::closed && step.n_bytes > 0);
  if (is_settled) {
    output_.settle_calls();
    call_text_.clear();
  }
  if (step.kind == CallStep::Kind::failed) output_.fail_call(call_text_, step.reason);
  if (step.kind == CallStep::Kind::closed) output_.close_calls(call_text_);
  if (step.kind == CallStep::Kind::failed || step.kind == CallStep::Kind::closed) {
    reader_.reset();
    call_text_.clear();
    at_ = At::content;
  }
  return take(step.n_bytes);
}

void ReplyParser::Machine::end_calls(ReplyEnd end) {
  if (reader_->end(end) || count_blanks(call_text_) == call_text_.size())
    output_.close_calls("");
  else
    output_.fail_call(call_text_, kCutShort);
}

void ReplyParser::Machine::begin_header(std::string_view text) {
  header_ = text;
  is_header_open_ = text.empty();
  at_ = At::header;
}

// Text that begins like no header is content.
bool ReplyParser::Machine::read_header_begin(std::string_view text, bool is_last) {
  const std::string begins[] = {std::string(kHarmonyStart), std::string(kHarmonyChannel), std::string(kHarmonyMessage),
                                " to=", "to="};
  const MarkSet::Look look = MarkSet(begins).look(text, is_last);
  if (look.kind == MarkSet::Kind::wait) return false;
  is_header_open_ = false;
  if (look.kind == MarkSet::Kind::text) at_ = At::start;
  const bool is_start = look.kind == MarkSet::Kind::mark && look.mark == 0;
  return take(is_start ? look.n_bytes : 0);
}

bool ReplyParser::Machine::read_header(std::string_view text, bool is_last) {
  if (is_header_open_) return read_header_begin(text, is_last);
  const MarkSet::Look look = marks_.header.look(text, is_last);
  if (look.kind == MarkSet::Kind::wait) return false;
  const bool is_mark = look.kind == MarkSet::Kind::mark;
  if (is_mark && marks_.header.rule(look).mark == ReplyMark::message_begin) {
    end_header();
    return take(look.n_bytes);
  }
  const size_t n = is_mark ? 0 : std::min(look.n_bytes, kMaxHarmonyHeaderBytes - header_.size());
  header_ += text.substr(0, n);
  if (is_mark || n < look.n_bytes) add_content(std::exchange(header_, {}));
  return take(n);
}

void ReplyParser::Machine::end_header() {
  const std::string text = std::exchange(header_, {});
  const HarmonyHeader header = parse_harmony_header(text);
  if (header.is_for_tool() && !tools_.is_empty()) {
    call_text_ = text + std::string(kHarmonyMessage);
    reader_ = create_call_reader({family_, tools_, output_}, {CallStart::At::arguments, std::string(header.tool())});
    at_ = At::calls;
  } else if (header.recipient == "assistant") {
    at_ = At::ignored;
  } else if (header.channel == "analysis") {
    output_.open_reasoning(text + std::string(kHarmonyMessage));
    at_ = At::reasoning;
  } else {
    output_.begin_message();
    at_ = At::content;
  }
}

bool ReplyParser::Machine::read_ignored(std::string_view text, bool is_last) {
  const MarkSet::Look look = marks_.reasoning.look(text, is_last);
  if (look.kind == MarkSet::Kind::wait) return false;
  if (look.kind == MarkSet::Kind::mark) {
    at_ = At::content;
    const ReplyMark mark = marks_.reasoning.rule(look).mark;
    if (mark != ReplyMark::end_of_message) begin_header(mark == ReplyMark::channel ? kHarmonyChannel : "");
  }
  return take(look.n_bytes);
}

// Ends the state of the parser: all text that follows is content.
void ReplyParser::Machine::stop_parsing() {
  constexpr std::string_view kReason = "reply is over 8 MiB: the rest is not parsed";
  if (at_ == At::header) output_.add_content(header_);
  if (reader_)
    output_.fail_call(call_text_, kReason);
  else
    output_.warn(std::string(kReason));
  reader_.reset();
  call_text_.clear();
  if (at_ == At::reasoning) output_.close_reasoning("");
  at_ = At::content;
  has_stopped_ = true;
  output_.add_content(std::exchange(pending_, {}));
}

ReplyParser::ReplyParser(std::unique_ptr<Machine> machine) : machine_(std::move(machine)) {}

ReplyParser ReplyParser::create(ReplyFamily family, std::span<const ReplyTool> tools, std::string_view prompt_tail,
                                const ReplyOptions& options) {
  return ReplyParser(std::make_unique<Machine>(std::move(family), tools, prompt_tail, options));
}

ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

std::span<const ReplyDelta> ReplyParser::feed(std::string_view bytes) {
  machine_->feed(bytes);
  return machine_->deltas();
}

Reply ReplyParser::finish(ReplyEnd end) { return machine_->finish(end); }

std::span<const ReplyDelta> ReplyParser::deltas() const { return machine_->deltas(); }

}  // namespace tessera::text
