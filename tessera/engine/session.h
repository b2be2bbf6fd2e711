// A session: a KV cache and compute memory over a loaded engine. Batches go in, logits come out; results do not depend
// on how tokens are batched, on the number of threads, or on what the cache held before.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/engine/adapter_set.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/inspect.h"
#include "tessera/engine/step_cost.h"
#include "tessera/sched/executor.h"

namespace tessera {

/// Sees the inputs of the products with the model's weights: per column of a weight, the sum of squares over the
/// n_tokens inputs of one micro-batch.
using ProductObserver = std::function<void(std::string_view weight, std::span<const float> sums, int64_t n_tokens)>;

struct SessionOptions {
  int64_t n_ctx = 0;          // tokens over all sequences; 0: what the model was trained for
  int64_t n_ubatch = 512;     // tokens computed at once
  int32_t n_sequences = 1;    // sequence ids are 0 to n_sequences - 1
  int64_t n_outputs = 1;      // rows of logits or embeddings that one decode() can give
  bool embeddings = false;    // rows are embeddings instead of logits
  int32_t n_checkpoints = 0;  // of recurrent states: see Session::checkpoint()
  DType type_k = DType::f16;
  DType type_v = DType::f16;
  Activations activations = Activations::automatic;
  ThreadPoolOptions threads{};
  std::vector<SessionAdapter> adapters{};  // loaded when the session is created; see Session::set_adapters()
  ProductObserver observer{};  // called after each micro-batch, on the thread that called decode(); empty: none
  ValueWatch watch{};          // values to see while steps run
};

class Session {
 public:
  /// The bytes a session will take, and the weights' besides. Allocates no device memory; the engine need not be
  /// loaded.
  static Result<MemoryReport> plan(const Engine& engine, const SessionOptions& options);

  /// A session without memory, to be asked how it would compute; the engine must outlive it.
  static Result<std::unique_ptr<const Session>> plan_session(const Engine& engine, const SessionOptions& options);

  /// Errors: those of plan(); out_of_memory. The engine must be loaded.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Engine> engine, const SessionOptions& options);

  const Engine& engine() const { return *engine_; }
  const SessionOptions& options() const { return options_; }
  int64_t n_ctx() const { return options_.n_ctx; }
  /// The bytes that were allocated, by buffer, the engine's included.
  MemoryReport allocated_memory() const;

  /// See Backend::warning().
  std::string_view warning() const;

  /// How much of each adapter a sequence gets from the next decode() on; of those that are not named, nothing. Before,
  /// it gets what SessionOptions::adapters say. What the cache holds of it was computed with its adapters of that
  /// time: the caller clears that, or means it. Errors: invalid_argument (sequence, adapter, scale).
  Result<> set_adapters(int32_t sequence, std::span<const AdapterScale> scales) {
    return adapters_.set(sequence, scales);
  }

  /// What computing a micro-batch takes at the least, with the adapters that sequences begin with.
  Result<StepCost> step_cost(int64_t n_tokens, int64_t n_outputs) const;

  // --- to look into steps (inspect.cpp)

  /// How a micro-batch is computed: the graph, the device of each node and why, slices, copies. Errors: those of
  /// assign().
  Result<Schedule> step_schedule(int64_t n_tokens, int64_t n_outputs) const;
  const Executor& executor() const { return *executor_; }
  /// Called after each micro-batch from the next decode() or encode() on, on its thread; empty: no more. Such steps are
  /// timed, and options().watch sees none of them.
  void observe_steps(StepObserver observer) { step_observer_ = std::move(observer); }

  /// Whether the model has an encoder beside its decoder: each sequence is given a prompt with encode(), and what
  /// decode() adds to it attends to that. Sessions for embeddings have the encoder alone.
  bool has_encoder() const { return encoder_cache_ != nullptr; }
  /// Gives a sequence its prompt, in place of the one before. What the cache holds of the sequence was computed with
  /// that one: the caller clears it, or means it. Errors: invalid_argument (a token or the sequence out of range, no
  /// tokens, more than a micro-batch); limit (no room); unsupported (no encoder); cancelled. After an error the
  /// sequence has no prompt.
  Result<> encode(int32_t sequence, std::span<const int32_t> tokens, const CancelToken* cancel = nullptr);

  /// Computes a batch and stores its tokens in the cache. In a model that is not causal a sequence is computed at once:
  /// its tokens stand together and fit in a micro-batch, and the cache has none of it. Errors: invalid_argument (a
  /// token, position or sequence out of range, more outputs than n_outputs, a sequence in pieces); limit (the cache is
  /// full); cancelled. After an error the cache is as it was before the batch.
  Result<> decode(const Batch& batch, const CancelToken* cancel = nullptr);

  /// Logits [n_vocab] of the i-th token of the last batch that wanted them; valid until the next decode().
  std::span<const float> logits(int64_t i) const { return row(i); }
  /// Embeddings [n_embd] in their place, with options().embeddings.
  std::span<const float> embedding(int64_t i) const { return row(i); }
  /// What the model's rank head makes of a pooled embedding [n_embd]: scores [n_scores]. Errors: unsupported (it has
  /// none, or the session gives logits).
  Result<std::vector<float>> rank(std::span<const float> embedding, const CancelToken* cancel = nullptr);
  int64_t n_outputs() const { return n_outputs_; }

  // --- sequences: see KvCache, and for models with recurrent layers RecurrentCache too, which allows less: a sequence
  // goes back only to a checkpoint, and is copied and shifted whole. Data is moved before these return. With an
  // encoder, a sequence keeps its prompt when tokens are removed; keep() and clear() forget prompts too, and copy()
  // gives `to` the prompt of `from`.
  Result<> remove(int32_t sequence, int32_t begin, int32_t end);
  Result<> keep(int32_t sequence);
  Result<> clear();
  Result<> copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  Result<> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta);
  /// Whether the model's tokens can be moved to other positions. Errors: unsupported, saying why not.
  Result<> want_shiftable() const;
  /// The lowest and highest positions held; of a recurrent state only the last is.
  std::optional<int32_t> min_position(int32_t sequence) const;
  std::optional<int32_t> max_position(int32_t sequence) const { return cache_->max_position(sequence); }
  /// As KvCache's; with recurrent layers the position after the last. Checkpoints lie below it.
  std::optional<int32_t> lowest_rollback(int32_t sequence) const;
  const KvCache& cache() const { return *cache_; }

  /// Whether the model has recurrent layers: their state cannot be wound back or shifted in parts.
  bool is_recurrent() const { return states_ != nullptr; }
  /// Keeps the recurrent state where a sequence is now, so that remove() can go back to it; nothing to do for other
  /// models. Errors: as RecurrentCache's.
  Result<> checkpoint(int32_t sequence);
  Result<> drop_checkpoints(int32_t sequence);

  // --- state of one sequence (state.cpp)

  /// Positions, keys and values of a sequence, and what the encoder made of its prompt: a versioned, checksummed block
  /// of bytes.
  Result<std::vector<std::byte>> save_state(int32_t sequence);
  /// Replaces a sequence by a saved one. Errors: format (damaged), mismatch (another model, other cache types),
  /// limit (does not fit). After an error the sequence is as it was.
  Result<> restore_state(int32_t sequence, std::span<const std::byte> state);

 private:
  Session() = default;
  static Result<std::unique_ptr<Session>> prepare(const Engine& engine, const SessionOptions& options);
  Result<> plan_caches(const Engine& engine);
  Result<> create_backends(const Engine& engine);
  size_t n_lanes_of(const Engine& engine) const;
  struct Decoder {
    std::unique_ptr<PreparedGraph> graph;
    nn::BatchInputs in;
    Value rows;  // logits or embeddings
    AdapterSet::Inputs adapters;
    uint64_t last_use = 0;
  };
  // Moves cells of the layers of one group of the cache.
  struct Mover {
    std::unique_ptr<PreparedGraph> graph;
    Value from, to, delta;
  };
  struct StepShape {
    int64_t n_tokens, n_outputs;
    AdapterSet::Mask adapters = 0;
    auto operator<=>(const StepShape&) const = default;
  };
  Result<Graph> decode_graph(const StepShape& shape, Decoder& decoder) const;
  // The encoder on a prompt of some length; the last one that was used is kept.
  struct Encoder {
    std::unique_ptr<PreparedGraph> graph;
    nn::BatchInputs in;
    AdapterSet::Inputs adapters;
    StepShape shape{0, 0};
  };
  Result<Graph> encode_graph(const StepShape& shape, Encoder& encoder) const;
  Result<> run_encoder(std::span<const BatchToken> tokens, const CancelToken* cancel);
  Result<> copy_prompt(int32_t from, int32_t to);
  Result<> want_prompts(std::span<const BatchToken> tokens) const;
  Result<> want_tokens(std::span<const BatchToken> tokens) const;
  // The inputs that a decoding and an encoding step have in common.
  Result<> set_tokens(const PreparedGraph& graph, const nn::BatchInputs& in, const AdapterSet::Inputs& adapters,
                      std::span<const BatchToken> tokens, size_t lane = 0);
  Result<> set_cells(const PreparedGraph& graph, const nn::BatchInputs& in, size_t lane = 0);
  // The rank head on one embedding.
  struct Ranker {
    std::unique_ptr<PreparedGraph> graph;
    Value x, scores;
  };
  Result<Graph> rank_graph(Ranker& ranker) const;
  Result<Graph> move_graph(size_t group, bool rotate, Mover& mover) const;
  Result<std::vector<Graph>> largest_graphs() const;
  Result<Decoder*> prepared(const StepShape& shape, size_t n_lanes);
  Result<Decoder*> find_or_prepare(const StepShape& shape, size_t n_lanes);
  Result<std::vector<Range>> parts_of(const Batch& batch) const;
  std::span<const float> row(int64_t i) const;
  // Elements of an output row.
  int64_t row_width() const;
  // A micro-batch on its way.
  struct Part {
    const Decoder* decoder = nullptr;
    int64_t n_outputs = 0;
    int64_t first_output = 0;
  };
  Result<> decode_parts(std::span<const BatchToken> tokens, std::span<const Range> parts, const CancelToken* cancel);
  Result<Part> begin_part(std::span<const BatchToken> tokens, size_t lane, size_t n_lanes, const CancelToken* cancel);
  Result<> end_part(const Part& part, size_t lane);
  Result<> run_step(PreparedGraph& graph, int64_t n_tokens, int64_t n_outputs, const CancelToken* cancel);
  Result<> observe(const PreparedGraph& prepared);
  Result<> move(std::span<const CellMoves> moves);
  Result<> move_group(size_t group, const CellMoves& moves);
  Result<> save_cache(const KvCache& cache, int32_t sequence, std::vector<std::byte>& state);
  Result<> store_rows(const KvCache& cache, std::span<const std::vector<int32_t>> cells,
                      std::span<const std::span<const std::byte>> rows);
  Result<> run_layer_io(const KvCache& cache, bool store, int64_t layer, std::span<const int32_t> cells,
                        std::span<std::byte> k, std::span<std::byte> v);

  std::shared_ptr<const Engine> engine_;
  const Model* model_ = nullptr;
  SessionOptions options_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<RecurrentCache> states_;          // null: no recurrent layers
  std::unique_ptr<KvCache> encoder_cache_;          // null: no encoder; its sequences are the cache's
  std::vector<std::unique_ptr<Backend>> backends_;  // of the engine's devices
  std::unique_ptr<Executor> executor_;
  size_t n_lanes_ = 1;  // micro-batches that are computed at the same time
  StepObserver step_observer_;
  AdapterSet adapters_;
  std::map<StepShape, Decoder> decoders_;
  Encoder encoder_;
  uint64_t n_runs_ = 0;
  std::map<std::pair<size_t, bool>, Mover> movers_;  // by (group, whether K is rotated)
  std::vector<std::vector<int32_t>> cells_;          // by group of the cache; reused
  std::vector<int32_t> ints_, runs_;                 // reused
  Ranker ranker_;
  std::vector<float> rows_, sums_;  // rows_: of output; sums_: of one observed product
  int64_t n_outputs_ = 0;
};

}  // namespace tessera
