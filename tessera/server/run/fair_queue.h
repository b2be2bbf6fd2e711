// The sequences that wait for a slot, and the order in which they get one. Clients share the machine by the tokens that
// were computed for them (virtual token counter: Sheng et al. 2024, "Fairness in Serving Large Language Models").
//
// Next is the sequence of the lowest priority number, then of the client with the lowest counter, then the oldest.
// Waiting makes a sequence more urgent. A short prompt may pass longer ones of the same client a few times.
//
// Sequences of one client and priority form a group, whose place is that of its oldest one. The groups are kept in
// order, so the cost of a step does not grow with the number that waits. Where memory is short, push() throws
// std::bad_alloc and changes nothing; moving groups in the order takes no memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/server/run/task.h"

namespace tessera::server {

class Sequence;

class FairQueue {
 public:
  static constexpr double kPromptTokenCost = 1;
  static constexpr double kGeneratedTokenCost = 2;
  static constexpr int64_t kShortPrompt = 256;   // tokens
  static constexpr int kMostPasses = 8;          // of short prompts before a long one
  static constexpr int64_t kAgeStepMs = 30'000;  // of waiting, for one step of priority
  static constexpr size_t kMostIdleClients = 4096;

  struct Waiting {
    std::shared_ptr<Sequence> sequence;
    std::string client;
    int priority = 0;
    int64_t n_tokens = 0;  // to be computed
    Clock::time_point since{};
    Clock::time_point deadline = Clock::time_point::max();
    bool is_first = false;  // before all others of its priority: it had a slot and lost it
    uint64_t arrival = 0;   // set by push() if it is 0; 1 is the oldest
    int n_passed = 0;       // by short prompts
  };

  FairQueue() = default;
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  void push(Waiting waiting);
  bool is_empty() const { return n_waiting_ == 0; }
  size_t size() const { return n_waiting_; }

  /// The next sequence that `may_start` accepts, or null. It stays in the queue until take().
  template <class F>
  const Waiting* next(Clock::time_point now, F may_start) {
    update_ages(now);
    for (const Rank& rank : order_)
      if (const Waiting* one = next_of(*std::get<Group*>(rank), now, may_start)) return one;
    return nullptr;
  }
  /// Removes an entry that next() returned.
  Waiting take(const Waiting* entry);

  /// Whether `f` is true for any entry.
  template <class F>
  bool any_of(F f) const {
    for (const Rank& rank : order_)
      for (const auto& [arrival, one] : std::get<Group*>(rank)->entries)
        if (f(one)) return true;
    return false;
  }
  /// All entries in their order at `now`, as far as it is known: short prompts may still pass long ones.
  std::vector<const Waiting*> in_order(Clock::time_point now) const;
  /// Whether an entry has a lower priority number, without its age.
  bool has_better_than(int priority) const {
    const auto end = n_by_priority_.begin() + static_cast<std::ptrdiff_t>(priority_index(priority));
    return std::any_of(n_by_priority_.begin(), end, [](size_t n) { return n > 0; });
  }

  /// Removes the entries for which `is_dropped` is true, and returns them.
  template <class F>
  std::vector<Waiting> drop_if(F is_dropped);
  /// Whether an entry's deadline may be over: drop_if() is to look for it.
  bool has_deadline_before(Clock::time_point now) const { return now >= earliest_deadline_; }

  /// A sequence that was pushed is neither waiting nor running any more.
  void end(const std::string& client);
  /// Tokens were computed for a client.
  void charge(const std::string& client, double cost);
  double counter(const std::string& client) const;

 private:
  struct ClientState;
  struct Group;
  using Entries = std::multimap<uint64_t, Waiting>;  // by arrival
  /// Priority less age, whether it has had no slot, counter, arrival of the oldest. Groups never differ by address
  /// only.
  using Rank = std::tuple<int64_t, bool, double, uint64_t, Group*>;
  using Order = std::set<Rank>;
  using Ages = std::set<std::pair<Clock::time_point, Group*>>;
  using Counters = std::multiset<double>;

  /// A group is in the order while it has entries. Otherwise it keeps its nodes of the order.
  struct Group {
    ClientState* client = nullptr;
    int priority = 0;
    bool is_first = false;
    int64_t age = 0;  // steps of the oldest entry, as the order knows them
    Entries entries{};
    Order::node_type rank{};
    Ages::node_type next_age{};
  };
  struct ClientState {
    double counter = 0;
    int64_t n_active = 0;  // sequences that wait or run
    std::map<std::pair<int, bool>, Group> groups{};
  };

  static constexpr int kBestPriority = -10, kWorstPriority = 10;

  static int64_t age_steps(const Waiting& waiting, Clock::time_point now);
  static bool is_long(const Waiting& waiting) { return waiting.n_tokens > kShortPrompt; }
  static Rank rank_of(Group& group);
  static Clock::time_point next_age_of(const Group& group);
  static size_t priority_index(int priority) {
    return static_cast<size_t>(std::clamp(priority, kBestPriority, kWorstPriority) - kBestPriority);
  }

  template <class F>
  const Waiting* next_of(const Group& group, Clock::time_point now, F may_start) const;
  Group& group_of(const Waiting& waiting);
  void forget_idle_clients();
  void enter_order(Group& group, int64_t age = 0);
  void leave_order(Group& group);
  void enter_or_erase(Group& group);
  void update_ages(Clock::time_point now);
  void note_removed(const Waiting& waiting);

  std::unordered_map<std::string, ClientState> clients_;
  Counters active_counters_;  // of the clients with active sequences
  Order order_;
  Ages ages_;  // the times at which groups become more urgent
  std::array<size_t, kWorstPriority - kBestPriority + 1> n_by_priority_{};
  size_t n_waiting_ = 0;
  Clock::time_point earliest_deadline_ = Clock::time_point::max();  // or earlier
  uint64_t n_arrivals_ = 0;
};

template <class F>
const FairQueue::Waiting* FairQueue::next_of(const Group& group, Clock::time_point now, F may_start) const {
  const Waiting* oldest = nullptr;
  for (const auto& [arrival, one] : group.entries) {
    if (!may_start(one)) continue;
    if (oldest == nullptr) {
      oldest = &one;
      if (!is_long(one) || one.n_passed >= kMostPasses) break;
    } else if (!is_long(one) && age_steps(one, now) == age_steps(*oldest, now)) {
      return &one;
    }
  }
  return oldest;
}

template <class F>
std::vector<FairQueue::Waiting> FairQueue::drop_if(F is_dropped) {
  std::vector<Waiting> dropped;
  dropped.reserve(n_waiting_);  // nothing throws after the next line
  const std::vector<Rank> ranks(order_.begin(), order_.end());
  earliest_deadline_ = Clock::time_point::max();
  for (const Rank& rank : ranks) {
    Group& group = *std::get<Group*>(rank);
    leave_order(group);
    for (auto it = group.entries.begin(); it != group.entries.end();) {
      const auto entry = it++;
      if (is_dropped(std::as_const(entry->second))) {
        note_removed(entry->second);
        dropped.push_back(std::move(entry->second));
        group.entries.erase(entry);
      } else {
        earliest_deadline_ = std::min(earliest_deadline_, entry->second.deadline);
      }
    }
    enter_or_erase(group);
  }
  return dropped;
}

}  // namespace tessera::server
