// The wait for the first token of a reply, in a terminal: shows a spinner with the progress of the prompt, and stops
// the work when the user presses Esc or Ctrl-C.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tessera/base/cancel.h"
#include "tessera/cli/spinner.h"
#include "tessera/cli/terminal.h"

namespace tessera::cli {

/// Milliseconds of a clock that never goes back, for views and spinners.
int64_t clock_ms();

/// Runs on a thread of its own until stop(). Nothing else may use the terminal meanwhile.
class ChatWatch {
 public:
  ChatWatch(Terminal& terminal, const ViewOptions& options, CancelToken& cancel);
  ~ChatWatch() { stop(); }
  ChatWatch(const ChatWatch&) = delete;
  ChatWatch& operator=(const ChatWatch&) = delete;

  /// Sets the progress of the prompt. May be called from any thread.
  void set_progress(int64_t n_done, int64_t n_total) {
    n_done_ = n_done;
    n_total_ = n_total;
  }

  /// Ends the thread and erases the spinner.
  void stop();

 private:
  void run();
  void look();

  Terminal& terminal_;
  Spinner spinner_;
  CancelToken& cancel_;
  bool has_spinner_;
  std::atomic<int64_t> n_done_ = 0, n_total_ = 0;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace tessera::cli
