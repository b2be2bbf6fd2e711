#include "tessera/cli/train_progress.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tessera/cli/console.h"

namespace tessera::cli {

namespace {

constexpr size_t kPlotWidth = 64, kPlotHeight = 6;
constexpr int64_t kMaxLines = 100;  // without a terminal
constexpr std::chrono::milliseconds kRedraw{200};
constexpr double kNewShare = 0.1;  // weight of the newest step in the mean time of a step

}  // namespace

TrainProgress::TrainProgress(int64_t n_steps, int64_t n_before, const LossCurve& curve, const Context& process)
    : n_steps_(n_steps),
      n_before_(n_before),
      curve_(curve),
      hidden_(process.quiet),
      draws_(!process.quiet && stderr_is_terminal()) {}

void TrainProgress::erase() {
  if (n_drawn_ > 0) std::fputs(fmt::format("\r\033[{}A\033[J", n_drawn_).c_str(), stderr);
  n_drawn_ = 0;
}

void TrainProgress::draw() {
  std::string text;
  size_t n_lines = 1;
  for (const std::string& line : plot_lines(curve_, kPlotWidth, kPlotHeight)) {
    text += line + "\n";
    ++n_lines;
  }
  text += status_ + "\n";
  erase();
  std::fputs(text.c_str(), stderr);
  n_drawn_ = n_lines;
  drawn_at_ = Clock::now();
}

void TrainProgress::update(const train::StepReport& step) {
  if (hidden_) return;
  step_seconds_ =
      step.step == n_before_ + 1 ? step.seconds : step_seconds_ + kNewShare * (step.seconds - step_seconds_);
  const auto left = static_cast<int64_t>(step_seconds_ * static_cast<double>(n_steps_ - step.step));
  status_ = fmt::format("step {} of {}, loss {:.4f}, gradient {:.3f}, rate {:.2e}, {:.0f} tokens/s, {:%T} left",
                        step.step, n_steps_, step.loss, step.gradient_norm, step.learning_rate,
                        static_cast<double>(step.n_tokens) / step_seconds_, std::chrono::seconds(left));
  const bool is_last = step.step == n_steps_;
  if (draws_) {
    if (is_last || Clock::now() - drawn_at_ >= kRedraw) draw();
    return;
  }
  const int64_t every = std::max<int64_t>(1, n_steps_ / kMaxLines);
  if (is_last || step.step % every == 0 || step.step == n_before_ + 1) log(status_);
}

void TrainProgress::add_eval(int64_t step, double loss) {
  note(fmt::format("step {}: evaluation loss {:.4f}", step, loss));
}

void TrainProgress::note(std::string_view line) {
  if (hidden_) return;
  if (draws_) erase();
  log(line);
  if (draws_) draw();
}

}  // namespace tessera::cli
