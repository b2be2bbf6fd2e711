// A thread that runs tasks in the order in which they are posted. The executor has one per backend: a backend's run()
// blocks until it is done, and devices must work at the same time. A rank of an MPI job has one per backend, too.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "tessera/base/result.h"

namespace tessera {

class Stream {
 public:
  /// Errors: out_of_memory (the system refuses a thread).
  static Result<std::unique_ptr<Stream>> create();
  /// Waits until all posted tasks are done.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The task does not throw.
  void post(std::function<void()> task);

 private:
  Stream() = default;
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace tessera
