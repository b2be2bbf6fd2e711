// The graphs of a session and the devices that run them. A step computes one micro-batch. Its graph depends only on its
// shape, so it is prepared once per shape and run again; between runs only the inputs change.
//
// If several devices have layers, micro-batches follow one another through the devices like in a pipeline. Each slot of
// the pipeline holds the values of one micro-batch.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/engine/adapter_set.h"
#include "tessera/engine/cell_graphs.h"
#include "tessera/engine/session_options.h"
#include "tessera/nn/inputs.h"
#include "tessera/sched/executor.h"

namespace tessera {

struct StepShape {
  int64_t n_tokens = 0, n_outputs = 0;
  AdapterSet::Mask adapters = 0;
  auto operator<=>(const StepShape&) const = default;
};

/// A step of one shape, ready to run.
struct PreparedStep {
  StepShape shape;
  std::unique_ptr<PreparedGraph> graph{};
  nn::BatchInputs in{};
  AdapterSet::Inputs adapters{};
  Value rows{};    // logits [n_vocab, n_outputs] or embeddings [n_embd, n_outputs]; absent for an encoder
  Value hidden{};  // absent for SessionPart::model, and in a head without outputs
};

class StepGraphs {
 public:
  /// A session whose backends are used where the devices are the same, and whose memory has the cache that a draft
  /// model may borrow. Null: none.
  struct Neighbour {
    const StepGraphs* graphs = nullptr;
    const SequenceMemory* memory = nullptr;
  };

  /// Opens a backend per device. All arguments must outlive the result. Errors: those of Device::create_backend().
  /// invalid_argument (a draft model that borrows a cache, without a neighbour). model: the engine's, or its head.
  static Result<std::unique_ptr<StepGraphs>> create(const Engine& engine, const Model& model,
                                                    const SessionOptions& options, const SequenceMemory& memory,
                                                    AdapterSet& adapters, Neighbour beside);

  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  CellGraphs& cells() { return *cells_; }
  /// Micro-batches that can be computed at the same time.
  size_t n_pipeline_slots() const { return n_pipeline_slots_; }
  /// The first warning of a backend; see Backend::warning().
  std::string_view warning() const;

  /// Graphs whose memory suffices for every graph of this session.
  Result<std::vector<Graph>> largest_graphs() const;
  Result<Graph> decode_graph(const StepShape& shape) const;

  /// The step of a shape, prepared for some pipeline slots; valid until the next call. Errors: limit (it does not fit
  /// in the reserved memory); those of the model's builder and of Executor::prepare().
  Result<const PreparedStep*> decode_step(const StepShape& shape, size_t n_pipeline_slots);
  /// The same for an encoder. Only the last shape is kept.
  Result<const PreparedStep*> encode_step(const StepShape& shape);
  /// Sets all inputs of a step in a pipeline slot.
  Result<> set_inputs(const PreparedStep& step, std::span<const BatchToken> tokens, const Reservation& reservation,
                      size_t pipeline_slot = 0);

  /// The scores of the model's rank head for an embedding [n_embd], or the embedding projected. Errors: those of
  /// running the graph.
  Result<std::vector<float>> rank(std::span<const float> embedding, const CancelToken* cancel);

 private:
  struct KeptStep {
    PreparedStep step;
    uint64_t last_use = 0;
  };
  // The rank head on one embedding.
  struct Ranker {
    std::unique_ptr<PreparedGraph> graph;
    Value x, scores;
  };

  StepGraphs(const Model& model, const SessionOptions& options, const SequenceMemory& memory, AdapterSet& adapters);
  Result<> create_executor(const Engine& engine, const StepGraphs* beside);
  std::shared_ptr<Backend> find_backend(const Device& device) const;
  size_t pipeline_depth(const Engine& engine) const;
  Result<Graph> build_decoder(PreparedStep& step) const;
  Result<Graph> build_encoder(PreparedStep& step) const;
  Result<Graph> build_ranker(Ranker& ranker) const;
  Result<> set_entry_inputs(const PreparedGraph& graph, const nn::CacheInputs& in, std::span<const BatchToken> tokens,
                            size_t pipeline_slot);
  Result<const PreparedStep*> find_or_prepare(const StepShape& shape, size_t n_pipeline_slots);

  const Model& model_;
  const SessionOptions& options_;
  const SequenceMemory& memory_;
  const KvCache* borrowed_ = nullptr;  // of another session, to which a draft model attends; null: that of memory_
  AdapterSet& adapters_;
  std::vector<std::shared_ptr<Backend>> backends_;  // of the engine's devices
  size_t n_pipeline_slots_ = 1;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<CellGraphs> cells_;
  std::map<StepShape, KeptStep> decoders_;
  uint64_t n_uses_ = 0;
  PreparedStep encoder_;
  Ranker ranker_;
  std::vector<int32_t> ints_;  // reused
};

}  // namespace tessera
