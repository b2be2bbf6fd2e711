// A run of training: steps over a dataset by a schedule, evaluations, checkpoints, and when to give up.
#pragma once

#include <functional>
#include <string>

#include "tessera/train/checkpoint.h"
#include "tessera/train/dataset.h"
#include "tessera/train/schedule.h"

namespace tessera::train {

struct RunOptions {
  int64_t n_batch_windows = 8;    // of a step
  Schedule schedule{};            // and how many steps there are
  int64_t eval_every = 0;         // steps; 0: only at the end
  std::string checkpoint_path{};  // empty: none are written
  int64_t save_every = 0;         // steps; 0: only at the end
  int64_t n_keep = 0;             // earlier checkpoints
};

struct StepReport {
  int64_t step = 0;  // from 1
  double loss = 0, gradient_norm = 0;
  float learning_rate = 0;
  int64_t n_tokens = 0;
  double seconds = 0;
};

/// Called on the thread that runs.
struct RunEvents {
  std::function<void(const StepReport&)> on_step{};
  std::function<void(int64_t step, double loss)> on_eval{};
  std::function<void(int64_t step)> on_save{};
};

class TrainingRun {
 public:
  /// All outlive the run. The trainer has its memory and its first values.
  TrainingRun(Trainer& trainer, const Dataset& data, const ModelFiles& files, const RunOptions& options);

  /// Goes on where a checkpoint was written. Errors: those of load_checkpoint().
  Result<> resume(const std::string& path);
  const RunState& state() const { return state_; }

  /// Runs all steps that are left. Errors: cancelled (after a checkpoint of the last whole step); limit (it diverges:
  /// no checkpoint is written of that); those of the files.
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
