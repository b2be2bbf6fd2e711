// What training writes: the model or adapter that was learned, and checkpoints, from which a run goes on to the same
// bits. A checkpoint is a GGUF file with the learned values in f32 under their own names, the moments beside them, and
// where the run stands in keys "tessera.train.*"; one of a whole model can be run as it is. Files appear only when they
// are complete: after an error the one before is still there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/gguf/split.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// Where a run stands.
struct RunState {
  int64_t n_steps = 0;     // done
  uint64_t n_windows = 0;  // seen
  // What divergence is judged by: the first loss, the running mean and the best it has been, steps in a row it was bad.
  double first_loss = 0, mean_loss = 0, best_loss = 0;
  int64_t n_bad_steps = 0;
};

/// What a checkpoint is of.
struct RunIdentity {
  uint64_t model = 0;
  uint64_t data = 0;  // Dataset::fingerprint()
};

/// Tells a model, and what is learned of it, from others: keys, names, shapes, and samples of the values in its files.
uint64_t model_fingerprint(const ModelFiles& files, const Parameters& parameters);

/// Writes a checkpoint. n_keep: so many of the ones before stay, as PATH.1 (the last), PATH.2 ...
Result<> save_checkpoint(const std::string& path, const ModelFiles& files, const Trainer& trainer,
                         const RunIdentity& identity, const RunState& state, int64_t n_keep);

/// Fills a trainer from a checkpoint. Errors: those of ModelFiles; mismatch (of another model, text or optimizer);
/// format (no checkpoint).
Result<RunState> load_checkpoint(const std::string& path, Trainer& trainer, const RunIdentity& identity);

/// Writes what was learned: a whole model with matrices of this type (f32, f16, bf16), or the adapter, always f32.
Result<> write_trained(const std::string& path, const ModelFiles& files, const Trainer& trainer, DType type);

}  // namespace tessera::train
