#include "tessera/server/run/mailbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera::server {

namespace {

constexpr double kLeaveShare = 0.05;  // of the last interval in the average
constexpr int kMostRetrySeconds = 60;

}  // namespace

class Mailbox::ReservedPlace {
 public:
  ReservedPlace(Mailbox& mailbox, std::string client) : mailbox_(mailbox), client_(std::move(client)) {}
  ReservedPlace(const ReservedPlace&) = delete;
  ReservedPlace& operator=(const ReservedPlace&) = delete;
  ~ReservedPlace() {
    const std::lock_guard lock(mailbox_.mutex_);
    mailbox_.remove_one(client_);
  }

 private:
  Mailbox& mailbox_;
  const std::string client_;
};

// Why another task cannot wait, if it cannot. With the mutex held.
std::optional<Refusal> Mailbox::check(const std::string& client, int64_t n_tokens) const {
  const auto refusal = [&](std::string message, bool is_clients_own = false) {
    return Refusal{.message = std::move(message), .is_clients_own = is_clients_own, .retry_after_s = seconds_to_half()};
  };
  if (is_closed_) return refusal(std::string(kShuttingDown));
  if (n_tasks_ >= limits_.n_tasks) return refusal(fmt::format("The queue is full: {} requests wait", n_tasks_));
  if (n_tasks_ > 0 && n_tokens_ + n_tokens > limits_.n_tokens)
    return refusal(
        fmt::format("The queue is full: the waiting prompts have {} tokens, limit {}", n_tokens_, limits_.n_tokens));
  const auto found = n_client_tasks_.find(client);
  if (found != n_client_tasks_.end() && found->second >= limits_.n_client_tasks)
    return refusal(fmt::format("Too many requests of this client wait: {}", found->second), true);
  return std::nullopt;
}

std::expected<Mailbox::Place, Refusal> Mailbox::reserve(const std::string& client) {
  const std::lock_guard lock(mutex_);
  if (auto refusal = check(client, 0)) return std::unexpected(std::move(*refusal));
  int64_t& n_client_tasks = n_client_tasks_[client];
  auto place = std::make_shared<ReservedPlace>(*this, client);
  ++n_client_tasks;
  ++n_tasks_;
  return place;
}

std::optional<Refusal> Mailbox::submit(std::shared_ptr<Task> task) {
  const int64_t n_tokens = task->n_tokens();
  const std::string& client = task->spec().client;
  const std::lock_guard lock(mutex_);
  if (auto refusal = check(client, n_tokens)) return refusal;
  ++n_client_tasks_[client];
  ++n_tasks_;
  n_tokens_ += n_tokens;
  mail_.tasks.push_back(std::move(task));
  if (is_awaited_) changed_.notify_one();
  return std::nullopt;
}

void Mailbox::post(std::function<void()> command) {
  const std::lock_guard lock(mutex_);
  mail_.commands.push_back(std::move(command));
  if (is_awaited_) changed_.notify_one();
}

void Mailbox::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  if (is_awaited_) changed_.notify_one();
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

Mailbox::Mail Mailbox::take(std::optional<Clock::time_point> deadline) {
  std::unique_lock lock(mutex_);
  const auto has_mail = [&] { return is_woken_ || !mail_.tasks.empty() || !mail_.commands.empty(); };
  is_awaited_ = true;
  if (deadline) {
    changed_.wait_until(lock, *deadline, has_mail);
  } else {
    changed_.wait(lock, has_mail);
  }
  is_awaited_ = false;
  return take_locked();
}

Mailbox::Mail Mailbox::take_now() {
  const std::lock_guard lock(mutex_);
  return take_locked();
}

Mailbox::Mail Mailbox::take_locked() {
  is_woken_ = false;
  return std::exchange(mail_, {});
}

void Mailbox::leave(const Task& task, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  remove_one(task.spec().client);
  n_tokens_ -= task.n_tokens();
  if (last_leave_ != Clock::time_point{})
    leave_s_ += kLeaveShare * (std::chrono::duration<double>(now - last_leave_).count() - leave_s_);
  last_leave_ = now;
}

void Mailbox::remove_one(const std::string& client) {
  --n_tasks_;
  const auto found = n_client_tasks_.find(client);
  if (found != n_client_tasks_.end() && --found->second == 0) n_client_tasks_.erase(found);
}

// The time in which half of the queue leaves at the present rate.
int Mailbox::seconds_to_half() const {
  return static_cast<int>(std::clamp(leave_s_ * static_cast<double>(n_tasks_) / 2, 1.0, double{kMostRetrySeconds}));
}

int64_t Mailbox::n_waiting() const {
  const std::lock_guard lock(mutex_);
  return n_tasks_;
}

int64_t Mailbox::n_waiting_tokens() const {
  const std::lock_guard lock(mutex_);
  return n_tokens_;
}

}  // namespace tessera::server
