#include "tessera/server/run/compute_turns.h"

#include <algorithm>

namespace tessera::server {

namespace {

// A party that rested may be ahead by so much when it comes back, so that short steps between long ones of another
// party are not lost.
constexpr ComputeTurns::Clock::duration kMostCredit = std::chrono::milliseconds(100);

}  // namespace

ComputeTurns::Party::Party(ComputeTurns& turns) : turns_(turns) {
  const std::lock_guard lock(turns.mutex_);
  used_ = turns.started_;
  turns.parties_.push_back(this);
}

ComputeTurns::Party::~Party() {
  const std::lock_guard lock(turns_.mutex_);
  if (has_turn_) turns_.end_turn(*this);
  std::erase(turns_.parties_, this);
}

void ComputeTurns::Party::take() {
  std::unique_lock lock(turns_.mutex_);
  if (has_turn_) turns_.end_turn(*this);
  used_ = std::max(used_, turns_.started_ - kMostCredit);
  is_waiting_ = true;
  turns_.changed_.wait(lock, [this] { return !turns_.is_busy_ && turns_.is_next(*this); });
  is_waiting_ = false;
  has_turn_ = true;
  turns_.is_busy_ = true;
  turns_.started_ = std::max(turns_.started_, used_);
  since_ = turns_.now_();
}

void ComputeTurns::Party::release() {
  const std::lock_guard lock(turns_.mutex_);
  if (has_turn_) turns_.end_turn(*this);
}

void ComputeTurns::Party::set_streaming(bool is_streaming) {
  const std::lock_guard lock(turns_.mutex_);
  is_streaming_ = is_streaming;
}

bool ComputeTurns::Party::others_stream() const {
  const std::lock_guard lock(turns_.mutex_);
  return std::ranges::any_of(turns_.parties_,
                             [this](const Party* other) { return other != this && other->is_streaming_; });
}

size_t ComputeTurns::n_waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::ranges::count_if(parties_, [](const Party* party) { return party->is_waiting_; }));
}

// Among those that wait, the one that has computed least; of equal ones the first to join.
bool ComputeTurns::is_next(const Party& party) const {
  bool is_later = true;  // than `other`, in the order of joining
  for (const Party* other : parties_) {
    if (other == &party) {
      is_later = false;
    } else if (other->is_waiting_ && (is_later ? other->used_ <= party.used_ : other->used_ < party.used_)) {
      return false;
    }
  }
  return true;
}

void ComputeTurns::end_turn(Party& party) {
  party.used_ += now_() - party.since_;
  party.has_turn_ = false;
  is_busy_ = false;
  changed_.notify_all();
}

}  // namespace tessera::server
