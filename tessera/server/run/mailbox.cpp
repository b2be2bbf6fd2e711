#include "tessera/server/run/mailbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera::server {

namespace {

constexpr double kLeaveShare = 0.05;  // of the last interval in the average
constexpr int kMostRetrySeconds = 60;

}  // namespace

std::optional<Refusal> Mailbox::submit(std::shared_ptr<Task> task) {
  const int64_t n_tokens = task->n_tokens();
  const std::lock_guard lock(mutex_);
  if (is_closed_) return Refusal{.message = "The server is shutting down", .retry_after_s = seconds_to_half()};
  if (n_tasks_ >= limits_.n_tasks)
    return Refusal{.message = fmt::format("The queue is full: {} requests wait", n_tasks_),
                   .retry_after_s = seconds_to_half()};
  if (n_tasks_ > 0 && n_tokens_ + n_tokens > limits_.n_tokens)
    return Refusal{.message = fmt::format("The queue is full: the waiting prompts have {} tokens, limit {}", n_tokens_,
                                          limits_.n_tokens),
                   .retry_after_s = seconds_to_half()};
  int64_t& n_client_tasks = n_client_tasks_[task->spec().client];
  if (n_client_tasks >= limits_.n_client_tasks)
    return Refusal{.message = fmt::format("Too many requests of this client wait: {}", n_client_tasks),
                   .is_clients_own = true,
                   .retry_after_s = seconds_to_half()};
  ++n_client_tasks;
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
  --n_tasks_;
  n_tokens_ -= task.n_tokens();
  const auto client = n_client_tasks_.find(task.spec().client);
  if (client != n_client_tasks_.end() && --client->second == 0) n_client_tasks_.erase(client);
  if (last_leave_ != Clock::time_point{})
    leave_s_ += kLeaveShare * (std::chrono::duration<double>(now - last_leave_).count() - leave_s_);
  last_leave_ = now;
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
