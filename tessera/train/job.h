// A training from its options to its output: the texts, the trainer and the run. Used by `tessera train` and `tessera
// finetune`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/train/run.h"

namespace tessera::train {

struct JobOptions {
  std::vector<std::string> texts{};  // files
  std::string separator = "<|endoftext|>";
  WindowLayout layout = WindowLayout::packed;
  bool special = false;      // recognize control tokens in the texts
  std::string checkpoint{};  // "": none
  bool resume = false;       // continue from the checkpoint
  int64_t n_ctx = 0;         // 0: the model's
  int64_t n_batch = 8;       // windows
  int64_t n_micro = 0;       // windows; 0: as many of a batch as contain 1024 tokens
  int64_t n_steps = 0;       // 0: computed from n_epochs
  float n_epochs = 1;
  int64_t n_warmup = -1;  // -1: a share of the steps
  ScheduleShape shape = ScheduleShape::cosine;
  float learning_rate = 1e-3f;
  float floor = 0.1f;
  float clip = 1.0f;
  OptimizerOptions optimizer{};
  int64_t seed = 1;
  float eval_share = 0.0f;
  int64_t eval_every = 0, save_every = 0, n_keep = 0;
  bool recomputes = false;
  DType type = DType::f32;  // of matrices in products and in the output
  ThreadPoolOptions threads{};

  /// Checks that a checkpoint exists if the run resumes, and only then. Errors: invalid_argument; not_found.
  Result<> require_checkpoint() const;
};

/// The model to train. Without LoRA, all of its weights are trained. All of it outlives the job.
struct JobModel {
  const Device& device;
  const ModelFiles& files;
  Model& model;
  const text::Tokenizer& tokenizer;
  Lora* lora = nullptr;
};

class Job {
 public:
  /// Reads the texts and plans the memory, without allocating it. Errors: those of Dataset::read() and
  /// Trainer::create().
  static Result<std::unique_ptr<Job>> create(const JobModel& model, const JobOptions& options,
                                             const CancelToken* cancel);

  const Dataset& data() const { return data_; }
  const Trainer& trainer() const { return *trainer_; }
  const RunOptions& run_options() const { return run_options_; }

  /// Allocates the memory and sets the weights, or reads them from the checkpoint. Errors: out_of_memory (also if the
  /// device has less); those of Trainer::initialize() and TrainingRun::resume().
  Result<> start();
  /// The run after start().
  TrainingRun& run() { return *run_; }
  /// Writes the trained model or adapter. Errors: those of write_trained().
  Result<> write(const std::string& path) const;

 private:
  Job(const JobModel& model, const JobOptions& options, Dataset data)
      : model_(model), options_(options), data_(std::move(data)) {}

  JobModel model_;
  JobOptions options_;
  Dataset data_;
  RunOptions run_options_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<TrainingRun> run_;
};

}  // namespace tessera::train
