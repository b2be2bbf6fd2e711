// Progress of long work that consists of countable parts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// Prints "chunk 3 of 60, PPL = 5.1, 00:00:12 left". On a terminal it is one line that redraws itself and disappears at
/// the end. Elsewhere each call prints a line without the time.
class CountProgress {
 public:
  /// n_before: parts completed in an earlier run.
  CountProgress(std::string noun, int64_t n_parts, int64_t n_before, const Context& process);
  ~CountProgress();
  CountProgress(const CountProgress&) = delete;
  CountProgress& operator=(const CountProgress&) = delete;

  /// figures: an interim result such as "PPL = 5.1", or "".
  void update(int64_t n_done, std::string_view figures);

 private:
  using Clock = std::chrono::steady_clock;
  std::string noun_;
  int64_t n_parts_, n_before_;
  bool hidden_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace tessera::cli
