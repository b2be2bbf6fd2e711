// Turns of computing. Several models share the CPUs of a process: one of them computes a step at a time, and each gets
// the same share of time. Source: start-time fair queueing (Goyal et al. 1996).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace tessera::server {

class ComputeTurns {
 public:
  using Clock = std::chrono::steady_clock;

  /// One that computes. The functions are for its own thread. At the end of its life it has no turn.
  class Party {
   public:
    explicit Party(ComputeTurns& turns);
    ~Party();
    Party(const Party&) = delete;
    Party& operator=(const Party&) = delete;

    /// Waits until it is the party's turn. A party that has a turn already keeps it, unless another one waits that has
    /// computed less: then that one goes first.
    void take();
    /// Ends the turn, if there is one.
    void release();
    bool has_turn() const { return has_turn_; }

    /// Tells the others whether a stream of this party waits for its next token.
    void set_streaming(bool is_streaming);
    /// Whether a stream of another party waits. Then steps should keep to the time target.
    bool others_stream() const;

   private:
    friend class ComputeTurns;
    ComputeTurns& turns_;
    Clock::duration used_{};  // its time of computing, raised to that of the others after a rest
    Clock::time_point since_{};
    bool has_turn_ = false;
    bool is_waiting_ = false;
    bool is_streaming_ = false;
  };

  /// `now` is the clock by which turns are measured.
  explicit ComputeTurns(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  /// The number of parties that wait for their turn.
  size_t n_waiting() const;

 private:
  // All with the mutex held.
  bool is_next(const Party& party) const;
  void end_turn(Party& party);

  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Party*> parties_;
  bool is_busy_ = false;
  Clock::duration started_{};  // Party::used_ at the start of the latest turn; never falls
};

}  // namespace tessera::server
