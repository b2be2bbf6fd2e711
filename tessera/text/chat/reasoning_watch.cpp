#include "tessera/text/chat/reasoning_watch.h"

#include <algorithm>

#include "tessera/text/chat/json_reader.h"
#include "tessera/text/utf8.h"

namespace tessera::text {

namespace {

constexpr size_t kMaxCodePointBytes = 4;

}  // namespace

ReasoningWatch::ReasoningWatch(const ReplyFamily& family, std::string_view prompt_tail)
    : begin_(family.reasoning_begin), end_(family.reasoning_end), has_many_(family.has_many_reasonings) {
  if (begin_.empty() || end_.empty()) may_begin_ = false;
  if (!may_begin_) return;
  const size_t begin = prompt_tail.rfind(begin_), end = prompt_tail.rfind(end_);
  is_open_ = begin != prompt_tail.npos && (end == prompt_tail.npos || end < begin);
  may_begin_ = has_many_ || (begin == prompt_tail.npos && end == prompt_tail.npos);
}

// Without a second block, the mark counts before any other text only.
void ReasoningWatch::feed(std::string_view bytes) {
  if (!is_open_ && !may_begin_) return;
  last_ += bytes;
  while (is_open_ || may_begin_) {
    const std::string& mark = is_open_ ? end_ : begin_;
    const size_t at = last_.find(mark);
    const bool needs_start = !is_open_ && !has_many_;
    if (needs_start) {
      const size_t text = std::min(last_.find_first_not_of(kJsonBlanks), last_.size());
      const std::string_view rest = std::string_view(last_).substr(text);
      may_begin_ = std::string_view(mark).starts_with(rest.substr(0, mark.size()));
      if (!may_begin_) return last_.clear();
    }
    if (at == last_.npos) break;
    last_.erase(0, at + mark.size());
    is_open_ = !is_open_;
    may_begin_ = has_many_;
  }
  const size_t n_kept = std::max({begin_.size(), end_.size(), kMaxCodePointBytes});
  if (last_.size() > n_kept) last_.erase(0, last_.size() - n_kept);
}

bool ReasoningWatch::ends_in_code_point() const { return n_incomplete_bytes(last_) > 0; }

}  // namespace tessera::text
