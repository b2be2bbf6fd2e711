// How far a long piece of work is that is done in countable parts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// "chunk 3 of 60, PPL = 5.1, 00:00:12 left": one line that redraws itself where stderr is a terminal and is gone at
/// the end, else a line without the time for each call.
class CountProgress {
 public:
  /// n_before: parts that were done in an earlier run.
  CountProgress(std::string noun, int64_t n_parts, int64_t n_before, const Context& process);
  ~CountProgress();
  CountProgress(const CountProgress&) = delete;
  CountProgress& operator=(const CountProgress&) = delete;

  /// figures: such as "PPL = 5.1"; empty: none.
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
