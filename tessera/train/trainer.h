// Steps of training: a model's own graph with its gradients, run over micro-batches, and the graph that then updates
// the parameters. Everything is planned before memory is taken; results are the same bits for any number of threads,
// and with or without recomputation.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/cache/paged.h"
#include "tessera/cache/recurrent.h"
#include "tessera/models/model.h"
#include "tessera/nn/inputs.h"
#include "tessera/sched/executor.h"
#include "tessera/train/lora.h"
#include "tessera/train/parameters.h"

namespace tessera::train {

struct TrainerOptions {
  int64_t n_ctx = 256;          // tokens of a window
  int64_t n_micro_windows = 8;  // windows that are computed at once
  bool recomputes = false;      // keep the layers' outputs only, and compute the rest anew on the way back
  bool rounds_weights = false;  // matrices that are multiplied are bf16, what is learned f32
  float clip = 1.0f;            // most that the norm of all gradients may be; 0: any
  OptimizerOptions optimizer{};
  Lora* lora = nullptr;  // what is learned instead of the model's weights; outlives the trainer
  ThreadPoolOptions threads{};
};

/// Windows of n_ctx tokens, one after another, and what should follow each token; -1: anything.
struct Examples {
  std::span<const int32_t> tokens, targets;
};

struct StepResult {
  double loss = 0;           // mean over the targets
  double gradient_norm = 0;  // of the mean, before clipping
};

struct TrainingBytes {
  ParameterBytes parameters;
  size_t compute = 0;  // and the states of recurrent layers
  size_t total() const { return parameters.weights + parameters.gradients + parameters.moments + compute; }
};

class Trainer {
 public:
  /// Plans everything, takes no memory but for tables. Device and model outlive the trainer, which gives the model's
  /// weights their places. Errors: unsupported (a quantized file without LoRA, an operation without gradient, a model
  /// that gives no logits); invalid_argument (options).
  static Result<std::unique_ptr<Trainer>> create(const Device& device, Model& model, const TrainerOptions& options);

  const TrainerOptions& options() const { return options_; }
  TrainingBytes bytes() const {
    return {parameters_.bytes(), compute_bytes_ + (states_ == nullptr ? 0 : states_->bytes())};
  }
  /// Takes the memory. Errors: out_of_memory.
  Result<> allocate();
  /// Fills the weights: of a blueprint with first values, else from the model's files; the pairs of LoRA with theirs.
  Result<> initialize(const ModelFiles& files, uint64_t seed);

  /// One step, the i-th (from 0) of all. After an error, also cancelled, parameters are as they were before. Errors:
  /// invalid_argument (other than whole windows, no targets); limit (loss or gradients that are not finite).
  Result<StepResult> step(const Examples& examples, int64_t i, float learning_rate,
                          const CancelToken* cancel = nullptr);
  /// The sum of the losses, and how many there are.
  struct Losses {
    double sum = 0;
    int64_t n = 0;
    double mean() const { return n == 0 ? 0 : sum / static_cast<double>(n); }
  };
  Result<Losses> evaluate(const Examples& examples, const CancelToken* cancel = nullptr);

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  Model& model() const { return *model_; }
  std::string_view warning() const { return backend_->warning(); }

 private:
  enum class Pass : uint8_t { forward, backward };
  struct Inputs {
    nn::BatchInputs batch;
    Value targets, d_loss, losses, scales;
  };
  // What may be learned; is_layer_matrix: what Muon is for.
  struct Candidate {
    Tensor* tensor;
    bool is_layer_matrix;
  };
  Trainer() = default;
  Result<> plan_caches();
  Result<> list_candidates(std::vector<Candidate>& candidates);
  Result<> list_parameters();
  Result<Graph> build_pass(Pass pass, Inputs& in) const;
  Value build_losses(GraphBuilder& b, Inputs& in) const;
  std::vector<Value> checkpoints(const GraphBuilder& b) const;
  Result<Graph> build_update();
  Result<Losses> run_passes(Pass pass, const Examples& examples, const CancelToken* cancel);
  Result<Losses> run_pass(PreparedGraph& graph, const Inputs& in, const Examples& examples, const CancelToken* cancel);
  Result<> want_examples(const Examples& examples) const;
  int64_t n_tokens() const { return options_.n_ctx * options_.n_micro_windows; }

  TrainerOptions options_;
  const Device* device_ = nullptr;
  Model* model_ = nullptr;
  std::unique_ptr<KvCache> cache_;          // its shape: training keeps nothing in it
  std::unique_ptr<RecurrentCache> states_;  // where windows leave their last states; null: no recurrent layers
  std::vector<int32_t> runs_;               // each window is a run from a state of zeros
  Parameters parameters_;
  std::vector<const Tensor*> learned_;  // the weights of parameters_
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  size_t compute_bytes_ = 0;
  Inputs forward_in_, backward_in_;
  std::vector<std::pair<Rule, Value>> hypers_;  // inputs of the update, by rule
  std::unique_ptr<PreparedGraph> forward_, backward_, update_;
  std::vector<int32_t> ints_;
  std::vector<float> ones_, losses_;
};

}  // namespace tessera::train
