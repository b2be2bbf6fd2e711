#include "tessera/cli/chat_watch.h"

#include <chrono>

namespace tessera::cli {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);

}  // namespace

int64_t clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

ChatWatch::ChatWatch(Terminal& terminal, const ViewOptions& options, CancelToken& cancel)
    : terminal_(terminal),
      spinner_(options, clock_ms()),
      cancel_(cancel),
      has_spinner_(!terminal.is_dumb()),
      thread_([this] { run(); }) {}

void ChatWatch::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  // A terminal that cannot be written to is noticed with the first piece of the reply.
  static_cast<void>(terminal_.write(spinner_.erase()));
}

void ChatWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kLookEvery, [this] { return stops_; })) look();
}

void ChatWatch::look() {
  if (terminal_.take_escape()) cancel_.cancel();
  std::string bytes;
  if (terminal_.take_size_change()) bytes += spinner_.resize(terminal_.size().n_columns);
  if (has_spinner_) bytes += spinner_.frame(clock_ms(), n_done_, n_total_);
  if (!bytes.empty()) static_cast<void>(terminal_.write(bytes));
}

}  // namespace tessera::cli
