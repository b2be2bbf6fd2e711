// A thread that does what it is given, in that order: the executor has one for each backend, so that devices work at
// the same time though each backend runs to the end of what it is asked.
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
  /// Errors: out_of_memory (the system has no thread to give).
  static Result<std::unique_ptr<Stream>> create();
  /// When all that was posted is done.
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
