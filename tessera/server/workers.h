// Threads for work in proportion to the size of a request: parsing, templates, tokenizing, grammars, long answers. They
// run at a lower priority than the model's threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::server {

class Workers {
 public:
  /// Errors: out_of_memory (the system refuses a thread).
  static Result<std::unique_ptr<Workers>> create(int n_threads);
  /// Calls stop().
  ~Workers();

  /// Runs the tasks that wait, then joins the threads. Later tasks are dropped.
  void stop();
  /// The task does not throw.
  void post(std::function<void()> task);

 private:
  Workers() = default;
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::server
