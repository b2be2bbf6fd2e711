// The way into the scheduler's thread: new tasks within the limits of the queue, and commands. Any thread may write,
// the scheduler's thread reads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tessera/server/run/task.h"

namespace tessera::server {

struct QueueLimits {
  int64_t n_tasks = 512;
  int64_t n_client_tasks = 128;
  int64_t n_tokens = int64_t{4} << 20;  // of prompts
};

/// A task that the queue does not take.
struct Refusal {
  std::string message{};
  bool is_clients_own = false;  // the limit of one client: 429; otherwise 503
  int retry_after_s = 1;
};

class Mailbox {
 public:
  explicit Mailbox(const QueueLimits& limits) : limits_(limits) {}

  /// A place in the queue for a task that does not exist yet. Its end gives the place back.
  using Place = std::shared_ptr<const void>;
  /// Takes a place in the queue, so that it is known before a request is read whether its task can wait. The place
  /// counts as a waiting task of the client, without tokens. It must not outlive the mailbox.
  std::expected<Place, Refusal> reserve(const std::string& client);
  /// Adds a task, which counts as waiting until leave(). The caller gives its place back before.
  std::optional<Refusal> submit(std::shared_ptr<Task> task);
  /// Adds a command, which the scheduler's thread calls between two steps.
  void post(std::function<void()> command);
  /// Wakes the scheduler's thread.
  void wake();
  /// Refuses all later tasks.
  void close();

  struct Mail {
    std::vector<std::shared_ptr<Task>> tasks{};
    std::vector<std::function<void()>> commands{};
  };
  /// Returns what has come. Without mail, waits for it until `deadline`, or without end for no deadline.
  Mail take(std::optional<Clock::time_point> deadline);
  /// Returns what has come, without waiting.
  Mail take_now();

  /// A task does not wait any more.
  void leave(const Task& task, Clock::time_point now);

  int64_t n_waiting() const;
  int64_t n_waiting_tokens() const;

 private:
  class ReservedPlace;

  std::optional<Refusal> check(const std::string& client, int64_t n_tokens) const;
  void remove_one(const std::string& client);
  int seconds_to_half() const;
  Mail take_locked();

  const QueueLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Mail mail_;
  bool is_awaited_ = false;  // the scheduler sleeps
  bool is_woken_ = false;
  bool is_closed_ = false;
  int64_t n_tasks_ = 0;
  int64_t n_tokens_ = 0;
  std::map<std::string, int64_t> n_client_tasks_;
  Clock::time_point last_leave_{};
  double leave_s_ = 0.1;  // seconds between two leaves, averaged
};

}  // namespace tessera::server
