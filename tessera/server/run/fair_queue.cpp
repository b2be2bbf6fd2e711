#include "tessera/server/run/fair_queue.h"

#include <algorithm>

namespace tessera::server {

namespace {

int64_t age_steps(const FairQueue::Waiting& waiting, Clock::time_point now) {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - waiting.since).count();
  return std::max<int64_t>(age, 0) / FairQueue::kAgeStepMs;
}

}  // namespace

void FairQueue::push(Waiting waiting) {
  if (waiting.arrival == 0) waiting.arrival = ++n_arrivals_;
  add_active(waiting.client);
  waiting_.push_back(std::move(waiting));
}

FairQueue::Waiting FairQueue::take(const Waiting* entry) {
  const auto place = std::ranges::find_if(waiting_, [&](const Waiting& one) { return &one == entry; });
  for (Waiting& one : waiting_)
    if (one.client == entry->client && one.arrival < entry->arrival && passes(*entry, one)) ++one.n_passed;
  Waiting taken = std::move(*place);
  waiting_.erase(place);
  return taken;
}

// A client that comes back does not get the time that it has not used.
void FairQueue::add_active(const std::string& client) {
  ClientState& state = clients_[client];
  if (state.n_active++ > 0) return;
  double least = -1;
  for (const auto& [name, other] : clients_)
    if (&other != &state && other.n_active > 0 && (least < 0 || other.counter < least)) least = other.counter;
  state.counter = std::max(state.counter, least);
  if (clients_.size() > kMostIdleClients) forget_idle_clients();
}

void FairQueue::end(const std::string& client) { --clients_[client].n_active; }

double FairQueue::counter(const std::string& client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? 0 : found->second.counter;
}

// An idle client whose counter is below that of all active ones would get theirs when it comes back.
void FairQueue::forget_idle_clients() {
  std::erase_if(clients_, [](const auto& entry) { return entry.second.n_active == 0; });
}

bool FairQueue::passes(const Waiting& later, const Waiting& earlier) const {
  return later.n_tokens <= kShortPrompt && earlier.n_tokens > kShortPrompt && earlier.n_passed < kMostPasses;
}

bool FairQueue::comes_before(const Waiting& a, const Waiting& b, Clock::time_point now) const {
  const int64_t priority_a = a.priority - age_steps(a, now), priority_b = b.priority - age_steps(b, now);
  if (priority_a != priority_b) return priority_a < priority_b;
  if (a.is_first != b.is_first) return a.is_first;
  if (a.client == b.client) {
    if (passes(a, b)) return true;
    if (passes(b, a)) return false;
    return a.arrival < b.arrival;
  }
  const double counter_a = counter(a.client), counter_b = counter(b.client);
  return counter_a != counter_b ? counter_a < counter_b : a.arrival < b.arrival;
}

}  // namespace tessera::server
