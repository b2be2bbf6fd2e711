#include "tessera/server/workers.h"

#include <sys/resource.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace tessera::server {

namespace {

constexpr int kNiceness = 5;

}  // namespace

Result<std::unique_ptr<Workers>> Workers::create(int n_threads) {
  std::unique_ptr<Workers> workers(new Workers);
  try {
    for (int i = 0; i < n_threads; ++i) workers->threads_.emplace_back([self = workers.get()] { self->work(); });
  } catch (const std::system_error& e) {
    return fail(ErrorCode::out_of_memory, "cannot start a worker thread: {}", e.what());
  }
  return workers;
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void Workers::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closing_) return;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Workers::work() {
  // Linux has a niceness per thread. If it refuses, the thread works all the same.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness));
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
  }
}

}  // namespace tessera::server
