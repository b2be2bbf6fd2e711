// Flags shared by train and finetune, and the training run that both start.
#pragma once

#include <string>
#include <vector>

#include "tessera/cli/command.h"
#include "tessera/train/job.h"
#include "tessera/train/lora.h"

namespace tessera::cli {

struct TrainArgs : train::JobOptions {
  bool separate_documents = false;  // no window contains parts of two documents
  bool whole_documents = false;     // no window begins or ends inside a document that is shorter than the window
  std::string output, svg, log_path;

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
