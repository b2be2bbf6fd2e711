// A process without standard input, as a daemon may be: its next file gets descriptor 0.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace tessera::testing {

/// Closes the standard input and gives it back at the end of the scope. No other thread may open files meanwhile.
class ClosedInput {
 public:
  ClosedInput() : kept_(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) { ::close(STDIN_FILENO); }
  ClosedInput(const ClosedInput&) = delete;
  ClosedInput& operator=(const ClosedInput&) = delete;
  ~ClosedInput() {
    if (kept_ < 0) return;  // there was none
    ::dup2(kept_, STDIN_FILENO);
    ::close(kept_);
  }

  /// Gives the process a standard input if it has none, so that what it opens next has another descriptor.
  static void give_input() {
    if (!is_taken()) static_cast<void>(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  /// Whether a file has the descriptor of the standard input.
  static bool is_taken() { return ::fcntl(STDIN_FILENO, F_GETFD) >= 0; }

 private:
  const int kept_;
};

}  // namespace tessera::testing
