#include "tessera/server/run/reasoning_limit.h"

#include <utility>

namespace tessera::server {

namespace {

constexpr int64_t kMostWaiting = 3;  // bytes that a code point may lack, as tokens

}  // namespace

ReasoningBound::ReasoningBound(std::shared_ptr<const ReasoningLimit> limit)
    : limit_(std::move(limit)), watch_(limit_->start) {
  set_open(watch_.is_open());
}

void ReasoningBound::set_open(bool is_open) {
  if (is_open != is_counted_) limit_->shared->n_open += is_open ? 1 : -1;
  is_counted_ = is_open;
}

// The tokens of the marks do not count.
void ReasoningBound::add(std::string_view piece) {
  const bool was_open = watch_.is_open();
  watch_.feed(piece);
  if (was_open && watch_.is_open()) ++n_tokens_;
  if (was_open && !watch_.is_open()) is_forced_ = false;
  set_open(watch_.is_open());
}

const std::vector<int32_t>& ReasoningBound::take_due() {
  static const std::vector<int32_t> kNone;
  const bool is_over = (limit_->n_most >= 0 && n_tokens_ >= limit_->n_most) || limit_->shared->must_end;
  if (!watch_.is_open() || is_forced_ || !is_over) return kNone;
  if (watch_.ends_in_code_point() && n_waiting_++ < kMostWaiting) return kNone;
  n_waiting_ = 0;
  is_forced_ = true;
  return limit_->ending;
}

}  // namespace tessera::server
