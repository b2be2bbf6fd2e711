#include "tessera/server/run/task_runner.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "tessera/server/memory_patience.h"
#include "tessera/server/run/sequence.h"

namespace tessera::server {

Result<> TaskRunner::start_thread() {
  try {
    thread_ = std::thread([this] {
      serves_all_requests = true;
      run();
    });
    return {};
  } catch (const std::system_error& e) {
    return fail(ErrorCode::out_of_memory, "cannot start a thread of the model: {}", e.what());
  }
}

std::expected<Mailbox::Place, Refusal> TaskRunner::reserve(const std::string& client) {
  auto place = mailbox_.reserve(client);
  if (!place) count(place.error());
  return place;
}

std::expected<std::shared_ptr<Task>, Refusal> TaskRunner::submit(TaskSpec spec) {
  spec.place.reset();
  auto task = std::make_shared<Task>(++n_ids_, std::move(spec));
  begin_job();
  if (auto refusal = mailbox_.submit(task)) {
    end_job();
    count(*refusal);
    return std::unexpected(std::move(*refusal));
  }
  return task;
}

void TaskRunner::count(const Refusal& refusal) {
  ++(refusal.is_clients_own ? metrics_.refused_client : metrics_.refused_full);
}

// Stops what is being computed if nobody wants it, or `ends_it`.
void TaskRunner::cancel_step(bool ends_it) {
  const std::lock_guard lock(running_mutex_);
  const bool nobody_waits = std::ranges::all_of(running_, [](const auto& task) { return task->is_cancelled(); });
  if (!running_.empty() && (ends_it || nobody_waits)) cancel_step_.cancel();
}

void TaskRunner::cancel(const std::shared_ptr<Task>& task) {
  task->mark_cancelled();
  has_cancels_ = true;
  cancel_step(false);
  mailbox_.wake();
}

void TaskRunner::stop_all() {
  ends_all_ = true;
  cancel_step(true);
  mailbox_.wake();
}

void TaskRunner::stop() {
  mailbox_.close();
  stop_all();
  is_stopping_ = true;
  mailbox_.wake();
  if (thread_.joinable()) thread_.join();
}

double TaskRunner::overdue_ms() const {
  const int64_t due_ns = due_ns_.load(std::memory_order_relaxed);
  if (due_ns == 0) return 0;
  const int64_t now_ns = Clock::now().time_since_epoch().count();
  return std::max(0.0, static_cast<double>(now_ns - due_ns) * 1e-6);
}

void TaskRunner::queue_tasks(std::span<const std::shared_ptr<Task>> tasks, Clock::time_point now) {
  for (const std::shared_ptr<Task>& task : tasks) {
    if (task->is_cancelled()) has_cancels_ = true;  // before the thread knew the task
    queue_next(task, now, 0);
  }
}

void TaskRunner::queue_next(const std::shared_ptr<Task>& task, Clock::time_point since, uint64_t arrival) {
  const std::optional<size_t> index = task->take_next();
  if (!index) return;
  auto sequence = std::make_shared<Sequence>(task, *index, tokenizer_, since);
  const int64_t n_tokens = sequence->n_tokens();
  queue_.push({.sequence = std::move(sequence),
               .client = task->spec().client,
               .priority = task->spec().priority,
               .n_tokens = n_tokens,
               .since = since,
               .deadline = task->spec().deadline.value_or(Clock::time_point::max()),
               .arrival = arrival});
}

void TaskRunner::leave_queue(Task& task, Clock::time_point now) {
  if (!task.leave_queue()) mailbox_.leave(task, now);
}

void TaskRunner::close_one(Task& task) {
  task.close_one();
  if (task.n_open() == 0) end_job();
}

void TaskRunner::set_running(std::vector<std::shared_ptr<Task>> tasks) {
  const std::lock_guard lock(running_mutex_);
  running_ = std::move(tasks);
}

Result<> TaskRunner::compute(std::vector<std::shared_ptr<Task>> tasks, double forecast_ms,
                             FunctionRef<Result<>(const CancelToken&)> step) {
  cancel_step_.reset();
  set_running(std::move(tasks));
  cancel_step(ends_all_);  // a task that was cancelled before
  const auto due = Clock::now() +
                   std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(forecast_ms));
  due_ns_.store(due.time_since_epoch().count(), std::memory_order_relaxed);
  Result<> computed = step(cancel_step_);
  due_ns_.store(0, std::memory_order_relaxed);
  set_running({});
  return computed;
}

}  // namespace tessera::server
