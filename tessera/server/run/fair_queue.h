// The sequences that wait for a slot, and the order in which they get one. Clients share the machine by the tokens that
// were computed for them (virtual token counter: Sheng et al. 2024, "Fairness in Serving Large Language Models").
//
// Next is the sequence of the lowest priority number, then of the client with the lowest counter, then the oldest.
// Waiting makes a sequence more urgent. A short prompt may pass longer ones of the same client a few times.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
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
    bool is_first = false;  // before all others of its priority: it had a slot and lost it
    uint64_t arrival = 0;   // set by push() if it is 0; 1 is the oldest
    int n_passed = 0;       // by short prompts
  };

  void push(Waiting waiting);
  bool is_empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }

  /// The next sequence that `may_start` accepts, or null. It stays in the queue until take().
  template <class F>
  const Waiting* next(Clock::time_point now, F may_start) {
    const Waiting* best = nullptr;
    for (const Waiting& one : waiting_)
      if (may_start(one) && (best == nullptr || comes_before(one, *best, now))) best = &one;
    return best;
  }
  /// Removes an entry that next() returned.
  Waiting take(const Waiting* entry);
  /// Removes the entries for which `is_dropped` is true, and returns them.
  template <class F>
  std::vector<Waiting> drop_if(F is_dropped) {
    std::vector<Waiting> dropped;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto entry = it++;
      if (!is_dropped(*entry)) continue;
      dropped.push_back(std::move(*entry));
      waiting_.erase(entry);
    }
    return dropped;
  }

  /// A sequence that was pushed is neither waiting nor running any more.
  void end(const std::string& client);
  /// Tokens were computed for a client.
  void charge(const std::string& client, double cost) { clients_[client].counter += cost; }
  double counter(const std::string& client) const;

  /// The order of two entries. Also used for the prompts of a step.
  bool comes_before(const Waiting& a, const Waiting& b, Clock::time_point now) const;
  const std::list<Waiting>& waiting() const { return waiting_; }

 private:
  struct ClientState {
    double counter = 0;
    int64_t n_active = 0;  // sequences that wait or run
  };

  void add_active(const std::string& client);
  bool passes(const Waiting& later, const Waiting& earlier) const;
  void forget_idle_clients();

  std::list<Waiting> waiting_;
  std::map<std::string, ClientState> clients_;
  uint64_t n_arrivals_ = 0;
};

}  // namespace tessera::server
