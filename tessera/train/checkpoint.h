// The output files of training: the trained model or adapter, and checkpoints. A run that resumes from a checkpoint
// computes the same bits as one that was not interrupted.
// A checkpoint is a GGUF file with the learned values in f32 under their own names, the optimizer's moments, and the
// run's progress in the keys "tessera.train.*". The checkpoint of a whole model can be run like any model file.
// Files are replaced only when complete: after an error the previous file is intact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/gguf/split.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// The progress of a run.
struct RunState {
  int64_t n_steps = 0;     // completed
  uint64_t n_windows = 0;  // used for training so far
  // For detecting divergence: the first loss, the running mean, the lowest mean, and the number of consecutive steps
  // whose mean was too high.
  double first_loss = 0, mean_loss = 0, best_loss = 0;
  int64_t n_bad_steps = 0;
};

/// Identifies the model and the data that a checkpoint belongs to.
struct RunIdentity {
  uint64_t model = 0;
  uint64_t data = 0;  // Dataset::fingerprint()
};

/// Identifies a model and its set of learned parameters: a hash of metadata keys, names, shapes, and samples of the
/// values in the model's files.
uint64_t model_fingerprint(const ModelFiles& files, const Parameters& parameters);

/// Writes a checkpoint. n_keep: number of previous checkpoints kept as PATH.1 (newest), PATH.2, ...
Result<> save_checkpoint(const std::string& path, const ModelFiles& files, const Trainer& trainer,
                         const RunIdentity& identity, const RunState& state, int64_t n_keep);

/// Fills a trainer from a checkpoint. Errors: the errors of ModelFiles; mismatch (the checkpoint of another model, text
/// or optimizer); format (the file is not a checkpoint).
Result<RunState> load_checkpoint(const std::string& path, Trainer& trainer, const RunIdentity& identity);

/// Writes the result of training: a whole model with matrices of this type (f32, f16 or bf16), or an adapter, which is
/// always f32.
Result<> write_trained(const std::string& path, const ModelFiles& files, const Trainer& trainer, DType type);

}  // namespace tessera::train
