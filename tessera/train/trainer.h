// Training steps: the model's graph with its gradients, run over micro-batches, then a graph that updates the
// parameters. All memory is planned before it is allocated. Results are bit-identical for any number of threads, and
// with or without recomputation.
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
  int64_t n_ctx = 256;          // tokens per window
  int64_t n_micro_windows = 8;  // windows per micro-batch
  bool recomputes = false;      // keep only the outputs of layers and recompute the rest in the backward pass
  bool rounds_weights = false;  // multiply by bf16 copies of the matrices; the learned values stay f32
  float clip = 1.0f;            // largest norm of all gradients; 0: no clipping
  OptimizerOptions optimizer{};
  Lora* lora = nullptr;  // if set, trained instead of the model's weights; outlives the trainer
  ThreadPoolOptions threads{};
};

/// Consecutive windows of n_ctx tokens, with the next token as the target of each; -1: ignored.
struct Examples {
  std::span<const int32_t> tokens, targets;
};

struct StepResult {
  double loss = 0;           // mean over the targets
  double gradient_norm = 0;  // of the gradient of the mean loss, before clipping
};

struct TrainingBytes {
  ParameterBytes parameters;
  size_t compute = 0;  // including the states of recurrent layers
  size_t total() const { return parameters.weights + parameters.gradients + parameters.moments + compute; }
};

class Trainer {
 public:
  /// Plans all buffers without allocating them, and assigns the model's weights to buffers. Device and model outlive
  /// the trainer. Errors: unsupported (a quantized file without LoRA, an operation without gradient, a model without
  /// logits); invalid_argument (options).
  static Result<std::unique_ptr<Trainer>> create(const Device& device, Model& model, const TrainerOptions& options);

  const TrainerOptions& options() const { return options_; }
  TrainingBytes bytes() const {
    return {parameters_.bytes(), compute_bytes_ + (states_ == nullptr ? 0 : states_->bytes())};
  }
  /// Allocates the planned buffers. Errors: out_of_memory.
  Result<> allocate();
  /// Fills the weights, with initial values for a blueprint, else from the model's files. LoRA pairs get their initial
  /// values.
  Result<> initialize(const ModelFiles& files, uint64_t seed);

  /// Computes step i (from 0) of the run. After an error or cancellation the parameters are unchanged. Errors:
  /// invalid_argument (incomplete windows, no targets); limit (loss or gradients are not finite).
  Result<StepResult> step(const Examples& examples, int64_t i, float learning_rate,
                          const CancelToken* cancel = nullptr);
  /// The sum and number of losses.
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
  // A tensor that could be learned. is_layer_matrix: Muon applies to it.
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
  Result<> require_examples(const Examples& examples) const;
  int64_t n_tokens() const { return options_.n_ctx * options_.n_micro_windows; }

  TrainerOptions options_;
  const Device* device_ = nullptr;
  Model* model_ = nullptr;
  std::unique_ptr<KvCache> cache_;          // describes the layers; never allocated, training stores no keys or values
  std::unique_ptr<RecurrentCache> states_;  // receives the final states of windows; null: no recurrent layers
  std::vector<int32_t> segments_;           // each window is a segment that starts from a state of zeros
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
