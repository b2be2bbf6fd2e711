// Events on their way from a thread that computes to the I/O threads: collected during a step, and posted once per
// step.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/server/run/task.h"

namespace tessera::server {

/// Runs a task on an I/O thread.
using PostToIo = std::function<void(size_t io_thread, std::function<void()> task)>;

class Outbox {
 public:
  explicit Outbox(PostToIo post_to_io) : post_to_io_(std::move(post_to_io)) {}

  void add(const std::shared_ptr<Task>& task, TaskEvent event);
  /// Posts the events to the sinks of their tasks, and flushes the sinks.
  void post();

 private:
  using Events = std::vector<std::pair<std::shared_ptr<Task>, TaskEvent>>;

  PostToIo post_to_io_;
  std::vector<Events> events_;  // by I/O thread
};

}  // namespace tessera::server
