// Progress of a training run. On a terminal it is a plot of the loss and a status line, which redraw themselves.
// Elsewhere it is a limited number of lines.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "tessera/cli/command.h"
#include "tessera/cli/loss_svg.h"
#include "tessera/train/run.h"

namespace tessera::cli {

class TrainProgress {
 public:
  /// n_before: steps completed in an earlier run. The curve must contain a step before its update().
  TrainProgress(int64_t n_steps, int64_t n_before, const LossCurve& curve, const Context& process);
  TrainProgress(const TrainProgress&) = delete;
  TrainProgress& operator=(const TrainProgress&) = delete;

  void update(const train::StepReport& step);
  void add_eval(int64_t step, double loss);
  /// Prints a line that stays.
  void note(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;
  void erase();
  void draw();

  int64_t n_steps_, n_before_;
  const LossCurve& curve_;
  bool hidden_, draws_;
  std::string status_;
  size_t n_drawn_ = 0;  // lines above the cursor
  double step_seconds_ = 0;
  Clock::time_point drawn_at_{};
};

}  // namespace tessera::cli
