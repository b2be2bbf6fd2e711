// The paged KV cache: keys and values of many sequences in blocks of 64 tokens.
//
// Position p of a sequence lies in slot p % 64 of the physical block that the sequence's table names for p / 64. So
// where a token lies within its block depends on its position alone, attention can go through blocks in an order that
// depends on positions alone, and results are the same bits whatever else the cache holds or held.
//
// The cache keeps tables; data moves only through graphs (kv_store) and the cell moves that copy() and shift() ask for.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/backend/allocate.h"
#include "tessera/backend/backend.h"
#include "tessera/batch/batch.h"
#include "tessera/cache/block_pool.h"

namespace tessera {

struct KvLayerShape {
  int64_t n_heads_kv = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  bool operator==(const KvLayerShape&) const = default;
};

struct KvCacheConfig {
  std::vector<KvLayerShape> layers;
  DType type_k = DType::f16;
  DType type_v = DType::f16;
  int64_t n_ctx = 0;        // tokens over all sequences, and the bound of any position
  int32_t n_sequences = 1;  // sequence ids are 0 to n_sequences - 1
};

inline constexpr int32_t kMaxSequences = 1024;
inline constexpr int64_t kMaxContext = int64_t{1} << 24;

/// Data to be moved after a change of tables, at once: cell from[i] to cell to[i], K rotated by `delta` positions.
/// Chunks of any size, taken in order, may be moved one after another if each is read before it is written.
struct CellMoves {
  std::vector<int32_t> from;
  std::vector<int32_t> to;
  int32_t delta = 0;
};

class KvCache {
 public:
  /// Computes layout and size; allocates nothing. Errors: invalid_argument (a type the device cannot keep, a
  /// context or number of sequences out of range).
  static Result<std::unique_ptr<KvCache>> plan(const Device& device, KvCacheConfig config);

  const KvCacheConfig& config() const { return config_; }
  size_t bytes() const { return placement_.bytes(); }
  Result<> allocate();
  size_t allocated_bytes() const { return buffers_.size(); }

  // --- for graphs

  const Tensor& k(int64_t layer) const { return k_[static_cast<size_t>(layer)]; }
  const Tensor& v(int64_t layer) const { return v_[static_cast<size_t>(layer)]; }
  /// Block tables of all sequences, i32 and i64 [n_max_blocks, n_sequences]; see GraphBuilder::attention.
  const Tensor& blocks() const { return blocks_tensor_; }
  const Tensor& valid() const { return valid_tensor_; }

  // --- decoding

  /// Makes room for a micro-batch and marks its positions stored. cells gets each token's cell. All or nothing.
  /// Errors: invalid_argument (a sequence or position out of range, or a position stored already);
  /// limit (the cache is full).
  Result<> reserve(std::span<const BatchToken> tokens, std::vector<int32_t>& cells);

  /// Whether these tokens, all of one sequence, would fit in the place of what the sequence holds now.
  /// Errors: as reserve().
  Result<> want_room_for(int32_t sequence, std::span<const BatchToken> tokens) const;

  // --- sequences; ranges of positions are [begin, end)

  /// Forgets the positions of a sequence in the range.
  Result<> remove(int32_t sequence, int32_t begin, int32_t end);
  /// Forgets all other sequences.
  Result<> keep(int32_t sequence);
  Result<> clear();
  /// Gives `to` the positions of `from` in the range. Whole blocks are shared until one of them writes; cells of blocks
  /// that `to` has already are to be moved. Errors: `to` has some of these positions; limit (full).
  Result<CellMoves> copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  /// Adds delta to the positions in the range. Errors: a position would leave [0, n_ctx) or meet one that
  /// stays; limit (full).
  Result<CellMoves> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta);

  /// The stored positions of a sequence, ascending, and the cell of each.
  struct Cells {
    std::vector<int32_t> positions;
    std::vector<int32_t> cells;
  };
  Result<Cells> cells(int32_t sequence) const;

  std::optional<int32_t> min_position(int32_t sequence) const;
  std::optional<int32_t> max_position(int32_t sequence) const;
  int64_t n_used_blocks() const { return pool_.n_blocks() - pool_.n_free(); }

 private:
  struct Entry {
    int32_t block = -1;
    uint64_t valid = 0;
  };

  explicit KvCache(int32_t n_blocks) : pool_(n_blocks) {}
  Entry& entry(int32_t sequence, int64_t logical) {
    return table_[static_cast<size_t>(sequence) * static_cast<size_t>(n_max_blocks_) + static_cast<size_t>(logical)];
  }
  const Entry& entry(int32_t sequence, int64_t logical) const {
    return const_cast<KvCache*>(this)->entry(sequence, logical);
  }
  Result<> want_sequence(int32_t sequence) const;
  Result<> want_positions(std::span<const BatchToken> tokens) const;
  Result<> want_blocks(int64_t n) const;
  Result<> make_writable(int32_t sequence, int64_t logical);
  Result<> copy_block(int32_t from, int32_t to);
  Result<> publish(int32_t sequence, int64_t logical);
  int64_t blocks_needed(std::span<const BatchToken> tokens) const;

  KvCacheConfig config_;
  int64_t n_max_blocks_ = 0;  // logical blocks per sequence
  BlockPool pool_;
  std::vector<Entry> table_;  // [n_sequences][n_max_blocks]; the tensors below mirror it on the device
  std::vector<Tensor> k_, v_;
  Tensor blocks_tensor_, valid_tensor_;
  TensorPlacement placement_;
  MultiBuffer buffers_;
};

}  // namespace tessera
