// The paged KV cache: keys and values of many sequences in blocks of 64 tokens.
//
// Position p of a sequence lies in slot p % 64 of the physical block that the sequence's table names for p / 64. So
// where a token lies within its block depends on its position alone, attention can go through blocks in an order that
// depends on positions alone, and results are the same bits whatever else the cache holds or held.
//
// Layers with one attention window share tables (KvGroup). Group 0 holds every stored position, also where no layer is
// without a window: it knows what is stored. A group with a window forgets blocks that no later token can see, but
// keeps what a sequence that goes back by kRollbackTokens will see. A stored position that a window group does not hold
// is forgotten there; whatever would see such a position is refused, so forgetting never changes a result.
//
// The cache keeps tables; data moves only through graphs (kv_store) and the cell moves that copy() and shift() ask for.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/tensor_memory.h"
#include "tessera/cache/kv_group.h"

namespace tessera {

struct KvLayerShape {
  int64_t n_heads_kv = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;   // 0: no V of its own (it is part of K)
  int64_t window = 0;  // > 0: a token at p sees only positions above p - window
  bool operator==(const KvLayerShape&) const = default;
};

struct KvCacheConfig {
  std::vector<KvLayerShape> layers;
  DType type_k = DType::f16;
  DType type_v = DType::f16;
  int64_t n_ctx = 0;                     // tokens over all sequences, and the bound of any position
  int32_t n_sequences = 1;               // sequence ids are 0 to n_sequences - 1
  int64_t n_ubatch = 512;                // most tokens of one reserve()
  std::vector<const Device*> devices{};  // by layer; empty: one for all
};

inline constexpr int32_t kMaxSequences = 1024;
inline constexpr int64_t kMaxContext = int64_t{1} << 24;
/// By so many positions a sequence can always go back.
inline constexpr int64_t kRollbackTokens = 64;

class KvCache {
 public:
  /// Computes layout and size; allocates nothing. Layers lie on config.devices, or all on this device; the tables of a
  /// group lie with its layers where those are on one device, else on this one. Errors: invalid_argument (a type that
  /// a layer's device cannot keep, a context or number of sequences out of range).
  static Result<std::unique_ptr<KvCache>> plan(const Device& device, KvCacheConfig config);

  const KvCacheConfig& config() const { return config_; }
  std::vector<TypeBytes> planned_memory() const { return memory_.planned(); }
  size_t bytes() const { return total_bytes(planned_memory()); }
  Result<> allocate();
  std::vector<TypeBytes> allocated_memory() const { return memory_.allocated(); }
  size_t allocated_bytes() const { return total_bytes(allocated_memory()); }

  // --- for graphs

  const Tensor& k(int64_t layer) const { return k_[static_cast<size_t>(layer)]; }
  bool has_v(int64_t layer) const { return config_.layers[static_cast<size_t>(layer)].v_dim > 0; }
  /// Only where has_v().
  const Tensor& v(int64_t layer) const { return v_[static_cast<size_t>(layer)]; }
  std::span<const KvGroup> groups() const { return groups_; }
  size_t group_of(int64_t layer) const { return group_of_layer_[static_cast<size_t>(layer)]; }

  // --- decoding: a batch is reserved in parts, then commit() or rollback() ends it

  /// Whether sequences and positions are in range.
  Result<> want_positions(std::span<const BatchToken> tokens) const;
  /// Makes room for a micro-batch and marks its positions stored; cells[g] gets each token's cell in group g.
  /// Errors: invalid_argument (a sequence or position out of range, a position stored already, or one that would see
  /// forgotten positions); limit (the cache is full). After an error nothing of the micro-batch is stored.
  Result<> reserve(std::span<const BatchToken> tokens, std::vector<std::vector<int32_t>>& cells);
  /// The batch is done: window groups forget what is out of sight.
  Result<> commit();
  /// The batch failed: the cache holds what it held before.
  Result<> rollback();

  // --- sequences, between batches; ranges of positions are [begin, end)

  /// Forgets the positions of a sequence in the range. Errors: the sequence would end at a position that sees
  /// positions which are forgotten; see lowest_rollback().
  Result<> remove(int32_t sequence, int32_t begin, int32_t end);
  /// Forgets all other sequences.
  Result<> keep(int32_t sequence);
  Result<> clear();
  /// Gives `to` the positions of `from` in the range. Whole blocks are shared until one of them writes; cells of blocks
  /// that `to` has already are to be moved, per group. Errors: `to` has some of these positions, or would end where
  /// forgotten positions are seen; limit (full).
  Result<std::vector<CellMoves>> copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  /// Adds delta to the positions in the range. Errors: a position would leave [0, n_ctx) or meet one that
  /// stays; the sequence would end where forgotten positions are seen; limit (full).
  Result<std::vector<CellMoves>> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta);
  /// Replaces a sequence: group g holds positions[g], ascending; group 0 has all. cells as reserve().
  /// Errors: as reserve(); after an error the sequence is as it was. The first says whether the second will succeed.
  Result<> want_replaceable(int32_t sequence, std::span<const std::vector<int32_t>> positions) const;
  Result<> replace(int32_t sequence, std::span<const std::vector<int32_t>> positions,
                   std::vector<std::vector<int32_t>>& cells);

  /// The positions of a sequence that a group holds, ascending, and the cell of each.
  struct Cells {
    std::vector<int32_t> positions;
    std::vector<int32_t> cells;
  };
  Result<Cells> cells(int32_t sequence, size_t group = 0) const;

  /// The lowest and highest stored positions.
  std::optional<int32_t> min_position(int32_t sequence) const;
  std::optional<int32_t> max_position(int32_t sequence) const;
  /// Positions from here on may be removed to the end and decoded anew; 0 where nothing is forgotten. No value: there
  /// is no such sequence.
  std::optional<int32_t> lowest_rollback(int32_t sequence) const;

 private:
  KvCache() = default;
  Result<> add_groups();
  Result<> add_layers(const Device& device);
  Result<> add_tables(const Device& device);
  const Device& device_of(size_t layer, const Device& otherwise) const;
  Result<> want_sequence(int32_t sequence) const;
  Result<> want_seen(std::span<const BatchToken> tokens) const;
  Result<> want_seen_after(const char* operation, int32_t sequence,
                           std::span<const std::vector<uint64_t>> images) const;
  bool sees_forgotten(const KvGroup& group, int32_t sequence, int64_t position) const;
  Error forgotten(const std::string& what, int64_t position, int32_t sequence, const KvGroup& group) const;

  KvCacheConfig config_;
  std::vector<KvGroup> groups_;
  std::vector<size_t> group_of_layer_;
  std::vector<BatchToken> pending_;  // of the batch that is being decoded
  std::vector<Tensor> k_, v_;        // by layer; where a layer has no V, an empty tensor
  TensorMemory memory_;
};

}  // namespace tessera
