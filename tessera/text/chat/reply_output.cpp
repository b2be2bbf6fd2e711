#include "tessera/text/chat/reply_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/text/utf8.h"

namespace tessera::text {

void ReplyOutput::emit(ReplyDelta::Kind kind, std::string_view text) {
  if (text.empty()) return;
  (kind == ReplyDelta::Kind::content ? reply_.content : reply_.reasoning) += text;
  if (deltas_.empty() || deltas_.back().kind != kind) deltas_.push_back({.kind = kind});
  deltas_.back().text += text;
}

void ReplyOutput::clear_gap(Gap gap) {
  gap_text_.clear();
  stray_at_ = std::string::npos;
  gap_ = gap;
}

void ReplyOutput::emit_gap() {
  if (joins_message_) emit(ReplyDelta::Kind::content, "\n");
  joins_message_ = false;
  if (gap_is_content()) {
    const std::string gap = std::exchange(gap_text_, {});
    emit(ReplyDelta::Kind::content, has_content() ? std::string_view(gap) : std::string_view(gap).substr(0, stray_at_));
  }
  clear_gap(Gap::none);
}

void ReplyOutput::add_content(std::string_view text) {
  const size_t n_before = count_blanks(text);
  gap_text_ += text.substr(0, n_before);
  if (n_before == text.size()) return;
  emit_gap();
  const size_t end = text.find_last_not_of(kJsonBlanks) + 1;
  emit(ReplyDelta::Kind::content, text.substr(n_before, end - n_before));
  gap_text_ = text.substr(end);
}

void ReplyOutput::add_stray_mark(std::string_view mark) {
  stray_at_ = std::min(stray_at_, gap_text_.size());
  gap_text_ += mark;
}

void ReplyOutput::begin_message() {
  joins_message_ = has_content();
  clear_gap(Gap::none);
}

void ReplyOutput::end_message() {
  if (has_content() && !joins_message_) emit_gap();
  clear_gap(Gap::call);
}

void ReplyOutput::open_reasoning(std::string_view mark) {
  if (options_.reasoning != ReasoningFormat::separate)
    add_content(mark);
  else
    clear_gap(gap_);
  has_block_text_ = false;
  reasoning_gap_.clear();
}

void ReplyOutput::add_reasoning(std::string_view text) {
  if (options_.reasoning != ReasoningFormat::separate) add_content(text);
  if (options_.reasoning == ReasoningFormat::none) return;
  const size_t n = text.find_last_not_of(kJsonBlanks) + 1;
  if (n == 0) {
    if (has_block_text_) reasoning_gap_ += text;
    return;
  }
  const size_t begin = has_block_text_ ? 0 : count_blanks(text);
  if (!has_block_text_ && !reply_.reasoning.empty()) emit(ReplyDelta::Kind::reasoning, "\n");
  has_block_text_ = true;
  emit(ReplyDelta::Kind::reasoning, reasoning_gap_);
  emit(ReplyDelta::Kind::reasoning, text.substr(begin, n - begin));
  reasoning_gap_ = text.substr(n);
}

void ReplyOutput::close_reasoning(std::string_view mark) {
  reasoning_gap_.clear();
  if (options_.reasoning == ReasoningFormat::separate)
    clear_gap(Gap::reasoning);
  else
    add_content(mark);
}

void ReplyOutput::make_content_reasoning(std::string_view mark) {
  const std::string text = reply_.content + gap_text_;
  const size_t begin = count_blanks(text);
  if (begin < text.size()) {
    reply_.reasoning = text.substr(begin, text.find_last_not_of(kJsonBlanks) + 1 - begin);
    warn("end of reasoning without a start");
  }
  if (options_.reasoning == ReasoningFormat::deepseek_legacy) return add_content(mark);
  reply_.content.clear();
  clear_gap(Gap::reasoning);
}

bool ReplyOutput::begin_call(std::string_view name, std::string_view id, Tool tool) {
  if (!holds_calls_) {
    announce(name, id, tool);
    return true;
  }
  if (!tools_.knows(name)) return false;
  held_.push_back({std::string(name), "", std::string(id)});
  call_ = Call::held;
  return true;
}

void ReplyOutput::announce(std::string_view name, std::string_view id, Tool tool) {
  const bool is_ignored = !family_.ignored_name.empty() && name == family_.ignored_name;
  const bool is_surplus = !options_.parallel_calls && !reply_.calls.empty();
  call_ = is_ignored || is_surplus ? Call::dropped : Call::open;
  if (is_ignored) return;
  if (is_surplus) return warn(fmt::format("more than one tool call: {} is dropped", quote_text(name)));
  if (tool == Tool::given && !tools_.knows(name)) warn(fmt::format("unknown tool: {}", quote_text(name)));
  reply_.calls.push_back({std::string(name), "", id.empty() ? random_id() : std::string(id)});
  deltas_.push_back({ReplyDelta::Kind::call, n_announced_++, reply_.calls.back().name, reply_.calls.back().id});
}

// Nine letters and digits: the form that Mistral's templates require, and valid everywhere else.
std::string ReplyOutput::random_id() {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id;
  for (int i = 0; i < 9; ++i) id += kDigits[ids_.next_u32() % kDigits.size()];
  return id;
}

void ReplyOutput::add_arguments(std::string_view json) {
  if (json.empty() || call_ == Call::dropped) return;
  if (call_ == Call::held) {
    held_.back().arguments += json;
    return;
  }
  reply_.calls.back().arguments += json;
  if (deltas_.empty() || deltas_.back().kind != ReplyDelta::Kind::arguments)
    deltas_.push_back({ReplyDelta::Kind::arguments, n_announced_ - 1, "", ""});
  deltas_.back().text += json;
}

void ReplyOutput::end_call() {
  if (call_ != Call::held) clear_gap(Gap::call);
  call_ = Call::none;
}

void ReplyOutput::settle_calls() {
  for (const ToolCall& call : std::exchange(held_, {})) {
    announce(call.name, call.id, Tool::given);
    add_arguments(call.arguments);
    end_call();
  }
  clear_gap(Gap::call);
}

void ReplyOutput::close_calls(std::string_view text) {
  holds_calls_ = false;
  if (!text.empty()) add_content(text);
}

void ReplyOutput::fail_call(std::string_view text, std::string_view reason) {
  const bool is_known_cut = reason == kCutShort && !held_.empty();
  if (!holds_calls_ || is_known_cut) warn(std::string(reason));
  const bool was_announced = call_ == Call::open;
  call_ = Call::none;
  holds_calls_ = false;
  held_.clear();
  if (!was_announced) return add_content(text);
  // The stream has dropped the blanks before the call and cannot take the call back.
  reply_.calls.pop_back();
  const std::string whole = gap_text_ + std::string(text);
  reply_.content += std::string_view(whole).substr(gap_is_content() ? 0 : count_blanks(whole));
  clear_gap(Gap::none);
}

void ReplyOutput::warn(std::string message) {
  if (reply_.warnings.size() == kMaxReplyWarnings) return;
  reply_.warnings.push_back(message);
  deltas_.push_back({ReplyDelta::Kind::warning, 0, std::move(message), ""});
}

void ReplyOutput::finish() {
  if (gap_ == Gap::none && !gap_text_.empty()) emit(ReplyDelta::Kind::content, gap_text_.substr(0, stray_at_));
}

}  // namespace tessera::text
