#include "tessera/train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tessera/base/index.h"

namespace tessera::train {

namespace {

// A run has diverged if the running mean of the loss stays this far above its lowest value.
constexpr double kMeanShare = 0.1;  // weight of the newest loss in the mean
constexpr double kWorseFactor = 3.0, kWorseBy = 2.0, kWorseThanFirst = 1.0;
constexpr int64_t kMaxBadSteps = 20;

}  // namespace

TrainingRun::TrainingRun(Trainer& trainer, const Dataset& data, const ModelFiles& files, const RunOptions& options)
    : trainer_(trainer),
      data_(data),
      files_(files),
      options_(options),
      identity_{model_fingerprint(files, trainer.parameters()), data.fingerprint()} {}

Result<> TrainingRun::resume(const std::string& path) {
  TESSERA_ASSIGN(state_, load_checkpoint(path, trainer_, identity_));
  saved_step_ = state_.n_steps;
  return {};
}

std::string TrainingRun::where() const {
  if (options_.checkpoint_path.empty()) return "no checkpoints are written without option checkpoint_path";
  if (saved_step_ < 0) return "there is no checkpoint yet";
  return fmt::format("the checkpoint {} of step {} is unchanged", options_.checkpoint_path, saved_step_);
}

Result<StepResult> TrainingRun::one_step(const CancelToken* cancel) {
  const auto n_ctx = to_size(data_.n_ctx());
  const auto n_windows = to_size(options_.n_batch_windows);
  tokens_.resize(n_windows * n_ctx);
  targets_.resize(n_windows * n_ctx);
  for (size_t i = 0; i < n_windows; ++i)
    data_.fill(data_.train_window(state_.n_windows + i), std::span(tokens_).subspan(i * n_ctx, n_ctx),
               std::span(targets_).subspan(i * n_ctx, n_ctx));
  TESSERA_ASSIGN(const StepResult result, trainer_.step({tokens_, targets_}, state_.n_steps,
                                                        options_.schedule.learning_rate(state_.n_steps), cancel));
  state_.n_windows += n_windows;
  ++state_.n_steps;
  return result;
}

Result<> TrainingRun::watch(double loss) {
  RunState& s = state_;
  if (s.n_steps == 1) s.first_loss = s.mean_loss = s.best_loss = loss;
  s.mean_loss += kMeanShare * (loss - s.mean_loss);
  s.best_loss = std::min(s.best_loss, s.mean_loss);
  if (s.n_steps <= options_.schedule.n_warmup_steps) return {};
  const double limit =
      std::max(std::min(kWorseFactor * s.best_loss, s.first_loss + kWorseThanFirst), s.best_loss + kWorseBy);
  s.n_bad_steps = s.mean_loss > limit ? s.n_bad_steps + 1 : 0;
  if (s.n_bad_steps < kMaxBadSteps) return {};
  return fail(ErrorCode::limit,
              "training diverges at step {}: the loss is {:.3f}, at its best {:.3f}: a smaller learning rate, option "
              "schedule.peak ({})",
              s.n_steps, s.mean_loss, s.best_loss, where());
}

Result<> TrainingRun::evaluate(const RunEvents& events, const CancelToken* cancel) {
  if (data_.n_eval_windows() == 0) return {};
  const auto n_ctx = to_size(data_.n_ctx());
  const auto n_at_once = to_size(trainer_.options().n_micro_windows);
  Trainer::Losses total;
  for (size_t begin = 0; begin < data_.n_eval_windows(); begin += n_at_once) {
    const size_t n = std::min(n_at_once, data_.n_eval_windows() - begin);
    tokens_.resize(n * n_ctx);
    targets_.resize(n * n_ctx);
    for (size_t i = 0; i < n; ++i)
      data_.fill(data_.eval_window(begin + i), std::span(tokens_).subspan(i * n_ctx, n_ctx),
                 std::span(targets_).subspan(i * n_ctx, n_ctx));
    TESSERA_ASSIGN(const Trainer::Losses losses, trainer_.evaluate({tokens_, targets_}, cancel));
    total.sum += losses.sum;
    total.n += losses.n;
  }
  if (events.on_eval) events.on_eval(state_.n_steps, total.mean());
  return {};
}

Result<> TrainingRun::save(const RunEvents& events) {
  if (options_.checkpoint_path.empty() || saved_step_ == state_.n_steps) return {};
  auto saved = save_checkpoint(options_.checkpoint_path, files_, trainer_, identity_, state_, options_.n_keep);
  if (!saved) return forward_error(saved, fmt::format("checkpoint of step {} ({})", state_.n_steps, where()));
  saved_step_ = state_.n_steps;
  if (events.on_save) events.on_save(state_.n_steps);
  return {};
}

Result<> TrainingRun::run(const RunEvents& events, const CancelToken* cancel) {
  using Clock = std::chrono::steady_clock;
  const auto is_due = [&](int64_t every) { return every > 0 && state_.n_steps % every == 0; };
  const auto stopped = [&]() -> Result<> {
    TESSERA_TRY(save(events));
    return fail(ErrorCode::cancelled, "stopped after step {} of {} ({})", state_.n_steps, options_.schedule.n_steps,
                options_.checkpoint_path.empty() ? where() : fmt::format("{} has it", options_.checkpoint_path));
  };
  while (state_.n_steps < options_.schedule.n_steps) {
    const float learning_rate = options_.schedule.learning_rate(state_.n_steps);
    const Clock::time_point start = Clock::now();
    auto result = one_step(cancel);
    if (!result && result.error().code() == ErrorCode::cancelled) return stopped();
    if (!result && result.error().code() == ErrorCode::limit)
      return fail(ErrorCode::limit,
                  "training diverges at step {}: {}: a smaller learning rate, option schedule.peak ({})",
                  state_.n_steps + 1, result.error().message(), where());
    if (!result) return forward_error(result, fmt::format("step {}", state_.n_steps + 1));
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    if (events.on_step)
      events.on_step({.step = state_.n_steps,
                      .loss = result->loss,
                      .gradient_norm = result->gradient_norm,
                      .learning_rate = learning_rate,
                      .n_tokens = options_.n_batch_windows * data_.n_ctx(),
                      .seconds = elapsed.count()});
    TESSERA_TRY(watch(result->loss));
    const bool is_last = state_.n_steps == options_.schedule.n_steps;
    if (is_last || is_due(options_.eval_every)) {
      auto evaluated = evaluate(events, cancel);
      if (!evaluated && evaluated.error().code() == ErrorCode::cancelled) return stopped();
      TESSERA_TRY(std::move(evaluated));
    }
    if (is_last || is_due(options_.save_every)) TESSERA_TRY(save(events));
    if (cancel != nullptr && cancel->cancelled() && !is_last) return stopped();
  }
  return {};
}

}  // namespace tessera::train
