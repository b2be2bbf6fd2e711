#include "tessera/base/stream.h"

#include <system_error>
#include <utility>

namespace tessera {

Result<std::unique_ptr<Stream>> Stream::create() {
  std::unique_ptr<Stream> stream(new Stream);
  try {
    stream->thread_ = std::thread([raw = stream.get()] { raw->work(); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::out_of_memory, "no thread for a device's work: {}", error.what());
  }
  return stream;
}

Stream::~Stream() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Stream::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace tessera
