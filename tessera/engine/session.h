// A session: a KV cache and compute memory over a loaded engine. Batches go in, logits come out; results do not depend
// on how tokens are batched, on the number of threads, or on what the cache held before.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/engine/step_cost.h"
#include "tessera/sched/executor.h"

namespace tessera {

/// Sees the inputs of the products with the model's weights: per column of a weight, the sum of squares over the
/// n_tokens inputs of one micro-batch.
using ProductObserver = std::function<void(std::string_view weight, std::span<const float> sums, int64_t n_tokens)>;

struct SessionOptions {
  int64_t n_ctx = 0;        // tokens over all sequences; 0: what the model was trained for
  int64_t n_ubatch = 512;   // tokens computed at once
  int32_t n_sequences = 1;  // sequence ids are 0 to n_sequences - 1
  int64_t n_outputs = 1;    // logits rows that one decode() can give
  DType type_k = DType::f16;
  DType type_v = DType::f16;
  Activations activations = Activations::automatic;
  ThreadPoolOptions threads{};
  ProductObserver observer{};  // called after each micro-batch, on the thread that called decode(); empty: none
};

class Session {
 public:
  /// The bytes a session will take, and the weights' besides. Allocates no device memory; the engine need not be
  /// loaded.
  static Result<MemoryReport> plan(const Engine& engine, const SessionOptions& options);

  /// Errors: those of plan(); out_of_memory. The engine must be loaded.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Engine> engine, const SessionOptions& options);

  const Engine& engine() const { return *engine_; }
  const SessionOptions& options() const { return options_; }
  int64_t n_ctx() const { return options_.n_ctx; }
  /// The bytes that were allocated, by buffer, the engine's included.
  MemoryReport allocated_memory() const;

  /// What computing a micro-batch takes at the least.
  Result<StepCost> step_cost(int64_t n_tokens, int64_t n_outputs) const;

  /// Computes a batch and stores its tokens in the cache. Errors: invalid_argument (a token, position or sequence
  /// out of range, more outputs than n_outputs); limit (the cache is full); cancelled. After an error the cache holds
  /// none of the batch's tokens.
  Result<> decode(const Batch& batch, const CancelToken* cancel = nullptr);

  /// Logits [n_vocab] of the i-th token of the last batch that wanted them; valid until the next decode().
  std::span<const float> logits(int64_t i) const;
  int64_t n_outputs() const { return n_outputs_; }

  // --- sequences: see KvCache. Data is moved before these return.
  Result<> remove(int32_t sequence, int32_t begin, int32_t end) { return cache_->remove(sequence, begin, end); }
  Result<> keep(int32_t sequence) { return cache_->keep(sequence); }
  Result<> clear() { return cache_->clear(); }
  Result<> copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  Result<> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta);
  std::optional<int32_t> min_position(int32_t sequence) const { return cache_->min_position(sequence); }
  std::optional<int32_t> max_position(int32_t sequence) const { return cache_->max_position(sequence); }
  const KvCache& cache() const { return *cache_; }

  // --- state of one sequence (state.cpp)

  /// Positions, keys and values of a sequence: a versioned, checksummed block of bytes.
  Result<std::vector<std::byte>> save_state(int32_t sequence);
  /// Replaces a sequence by a saved one. Errors: format (damaged), mismatch (another model, other cache types),
  /// limit (does not fit). After an error the sequence is as it was.
  Result<> restore_state(int32_t sequence, std::span<const std::byte> state);

 private:
  Session() = default;
  static Result<std::unique_ptr<Session>> prepare(const Engine& engine, const SessionOptions& options);
  Result<Graph> decode_graph(int64_t n_tokens, int64_t n_outputs) const;
  Result<Graph> move_graph(bool rotate) const;
  Result<std::vector<Graph>> largest_graphs() const;
  Result<PreparedGraph*> prepared(int64_t n_tokens, int64_t n_outputs);
  Result<> decode_part(std::span<const BatchToken> tokens, int64_t first_output, const CancelToken* cancel);
  Result<> observe(const PreparedGraph& graph);
  Result<> move(const CellMoves& moves);
  Result<> set_input(const PreparedGraph& graph, std::string_view name, std::span<const int32_t> values) const;
  Result<> run_layer_io(bool store, int64_t layer, std::span<const int32_t> cells, std::span<std::byte> k,
                        std::span<std::byte> v);

  struct Decoder {
    std::unique_ptr<PreparedGraph> graph;
    uint64_t last_use = 0;
  };

  std::shared_ptr<const Engine> engine_;
  const Model* model_ = nullptr;
  SessionOptions options_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  std::map<std::pair<int64_t, int64_t>, Decoder> decoders_;  // by (n_tokens, n_outputs)
  uint64_t n_runs_ = 0;
  std::unique_ptr<PreparedGraph> copy_graph_, rotate_graph_;
  std::vector<int32_t> cells_, ints_;  // reused
  std::vector<float> logits_, sums_;   // sums_: of one observed product
  int64_t n_outputs_ = 0;
};

}  // namespace tessera
