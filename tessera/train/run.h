// A training run: steps over a dataset with a learning rate schedule, evaluations, checkpoints, and detection of
// divergence. Used by `tessera train`.
#pragma once

#include <functional>
#include <string>

#include "tessera/train/checkpoint.h"
#include "tessera/train/dataset.h"
#include "tessera/train/schedule.h"

namespace tessera::train {

struct RunOptions {
  int64_t n_batch_windows = 8;    // per step
  Schedule schedule{};            // also sets the number of steps
  int64_t eval_every = 0;         // in steps; 0: only at the end
  std::string checkpoint_path{};  // empty: no checkpoints
  int64_t save_every = 0;         // in steps; 0: only at the end
  int64_t n_keep = 0;             // number of earlier checkpoints to keep
};

struct StepReport {
  int64_t step = 0;  // from 1
  double loss = 0, gradient_norm = 0;
  float learning_rate = 0;
  int64_t n_tokens = 0;
  double seconds = 0;
};

/// Callbacks, invoked on the thread that calls TrainingRun::run().
struct RunEvents {
  std::function<void(const StepReport&)> on_step{};
  std::function<void(int64_t step, double loss)> on_eval{};
  std::function<void(int64_t step)> on_save{};
};

class TrainingRun {
 public:
  /// All arguments but `options` outlive the run. The trainer is allocated and initialized.
  TrainingRun(Trainer& trainer, const Dataset& data, const ModelFiles& files, const RunOptions& options);

  /// Restores the state from a checkpoint. Errors: the errors of load_checkpoint().
  Result<> resume(const std::string& path);
  const RunState& state() const { return state_; }

  /// Runs the remaining steps. Errors: cancelled (after writing a checkpoint of the last complete step); limit (the
  /// loss diverges; no checkpoint of the diverged state is written); errors of the files.
  Result<> run(const RunEvents& events, const CancelToken* cancel);

 private:
  Result<StepResult> one_step(const CancelToken* cancel);
  Result<> evaluate(const RunEvents& events, const CancelToken* cancel);
  Result<> save(const RunEvents& events);
  Result<> watch(double loss);
  std::string where() const;

  Trainer& trainer_;
  const Dataset& data_;
  const ModelFiles& files_;
  RunOptions options_;
  RunIdentity identity_;
  RunState state_;
  int64_t saved_step_ = -1;  // of the last checkpoint of this run
  std::vector<int32_t> tokens_, targets_;
};

}  // namespace tessera::train
