// Flags shared by train and finetune, and the training run that both start.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/numa.h"
#include "tessera/cli/command.h"
#include "tessera/train/lora.h"
#include "tessera/train/run.h"

namespace tessera::cli {

struct TrainArgs {
  std::vector<std::string> texts;
  std::string separator = "<|endoftext|>";
  bool separate_documents = false;  // no window contains parts of two documents
  bool whole_documents = false;     // no window begins or ends inside a document that is shorter than the window
  bool special = false;             // recognize control tokens in the text
  std::string output, checkpoint, svg, log_path;
  bool resume = false;
  int64_t n_ctx = 0;    // 0: the model's
  int64_t n_batch = 8;  // windows
  int64_t n_micro = 0;  // windows; 0: as many of a batch as contain kMicroTokens tokens
  int64_t n_steps = 0;  // 0: computed from n_epochs
  float n_epochs = 1;
  int64_t n_warmup = -1;  // -1: a share of the steps
  train::ScheduleShape shape = train::ScheduleShape::cosine;
  float learning_rate;
  float floor = 0.1f;
  float clip = 1.0f;
  train::OptimizerOptions optimizer;
  int64_t seed = 1;
  float eval_share = 0.0f;
  int64_t eval_every = 0, save_every = 0, n_keep = 0;
  bool recomputes = false;
  DType type = DType::f32;
  int32_t n_threads = 1;
  NumaPolicy numa = NumaPolicy::none;

  explicit TrainArgs(float default_learning_rate);
  void add_to(FlagTable& table);
  /// Checks the flags together. Errors: invalid_argument.
  Result<> check() const;
};

/// Fails if no file can be created at this path; "" always succeeds. Errors: the errors of AtomicFile.
Result<> require_writable(const std::string& path);

/// The model to train. Without LoRA, all of its weights are trained.
struct Training {
  const ModelFiles& files;
  Model& model;
  train::Lora* lora = nullptr;
};

/// Reads the text, trains, and writes the result and the other files that the flags request.
Result<> run_training(const TrainArgs& args, const Training& training, Context& process);

}  // namespace tessera::cli
