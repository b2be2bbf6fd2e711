// The tables of layers with the same attention window and stride: they map the positions of each sequence to physical
// blocks of K and V. KvCache checks all arguments, and its groups carry out the changes.
//
// Layers with a stride have a second group. It maps the numbers of entries, of which each stands for `stride`
// positions: entry e is stored with position e * stride + stride - 1, which completes it. In this group a "position" is
// the number of an entry. Both groups of such layers use parts of the same tables and of the same K and V.
#pragma once

#include <span>
#include <vector>

#include "tessera/backend/buffer.h"
#include "tessera/base/index.h"
#include "tessera/batch/batch.h"
#include "tessera/cache/block_pool.h"
#include "tessera/graph/ops/kv.h"

namespace tessera {

/// Minimum rollback depth, in positions.
inline constexpr int64_t kRollbackTokens = 64;

/// Cells to move after a change of the tables: cell from[i] to cell to[i], with K rotated by `delta` positions. They
/// may be moved in chunks of any size, in order, if each chunk is read before it is written.
struct CellMoves {
  std::vector<int32_t> from;
  std::vector<int32_t> to;
  int32_t delta = 0;
};

/// Bits of the block offsets of logical block `block` whose positions are in [begin, end).
uint64_t range_bits(int64_t block, int64_t begin, int64_t end);

/// Block tables of all sequences, i32 and i64 [n_columns, n_sequences]; see GraphBuilder::attention.
struct KvTables {
  Tensor blocks, valid;
};

class KvGroup {
 public:
  struct Size {
    int64_t n_blocks = 0;      // physical blocks
    int64_t n_max_blocks = 0;  // logical blocks per sequence
    int32_t n_sequences = 0;
    int32_t first_block = 0;   // number of the first physical block in K and V
    int64_t first_column = 0;  // of the tables: where logical block 0 is
  };
  /// window 0: all stored positions are held. stride > 0: a group of entries. The tables must outlive the group.
  KvGroup(int64_t window, int64_t stride, const Size& size, KvTables& tables);

  int64_t window() const { return window_; }
  int64_t stride() const { return stride_; }
  int64_t n_max_blocks() const { return size_.n_max_blocks; }
  /// The first position of this group that is stored with a token at `position` or a later one: the same position, or
  /// the number of the entry that stands for it.
  int64_t at(int64_t position) const { return stride_ == 0 ? position : position / stride_; }
  int64_t n_blocks() const { return pool_.n_blocks(); }
  int64_t n_used_blocks() const { return pool_.n_blocks() - pool_.n_free(); }
  int64_t n_free_blocks() const { return pool_.n_free(); }
  /// Blocks that only retained references keep. They become free when these are released.
  int64_t n_idle_blocks() const { return pool_.n_idle(); }
  bool is_idle(int32_t block) const { return pool_.is_idle(block); }
  /// Blocks of a sequence, shared or not.
  int64_t n_blocks_of(int32_t sequence) const;
  /// Bytes of K and V of a block, in all layers.
  size_t block_bytes() const;

  const Tensor& blocks() const { return tables_->blocks; }
  const Tensor& valid() const { return tables_->valid; }
  /// Adds a tensor of K or V [dim, 64, n_heads_kv, n_blocks], which must stay where it is.
  void add_data(const Tensor& tensor) { data_.push_back(&tensor); }
  bool has_data() const { return !data_.empty(); }
  /// Holds nothing. The tables of the device are empty already.
  void reset();

  // --- queries

  bool holds(int32_t sequence, int32_t position) const;
  uint64_t valid_bits(int32_t sequence, int64_t logical) const { return entry(sequence, logical).valid; }
  /// The valid bits of all logical blocks: now, without [begin, end), or with [begin, end) moved by delta.
  std::vector<uint64_t> image(int32_t sequence) const;
  std::vector<uint64_t> image_without(int32_t sequence, int64_t begin, int64_t end) const;
  std::vector<uint64_t> image_shifted(int32_t sequence, int64_t begin, int64_t end, int64_t delta) const;
  /// The held positions of a sequence, ascending, and the cell of each.
  void cells(int32_t sequence, std::vector<int32_t>& positions, std::vector<int32_t>& cells) const;

  // --- room: blocks that an operation needs before it releases any

  Result<> require_blocks(int64_t n) const;
  int64_t blocks_to_store(std::span<const BatchToken> tokens) const;
  /// Likewise for a batch of any size that is decoded in micro-batches. A group with a window may need fewer blocks.
  int64_t blocks_to_decode(std::span<const BatchToken> tokens, int64_t n_ubatch) const;
  int64_t blocks_to_copy(int32_t from, int32_t to, int64_t begin, int64_t end) const;
  int64_t blocks_to_shift(int32_t sequence, int64_t begin, int64_t end, int64_t delta) const;
  /// Blocks that the removal of a sequence would release.
  int64_t n_own_blocks(int32_t sequence) const;

  // --- changes; sequences and positions are in range, and there is room

  /// Marks positions as held, all or nothing. Errors: invalid_argument (a position is held already, or
  /// occurs twice).
  Result<> mark(std::span<const BatchToken> tokens);
  /// Gives marked positions their cells. Blocks that were empty before are fresh until settle().
  Result<> assign_cells(std::span<const BatchToken> tokens, std::vector<int32_t>& cells);
  /// The tokens' blocks are no longer fresh.
  void settle(std::span<const BatchToken> tokens);
  Result<> remove(int32_t sequence, int64_t begin, int64_t end);
  enum class Which : uint8_t { all, fresh };
  /// Releases the blocks whose positions are all before a position.
  Result<> forget_before(int32_t sequence, int64_t position, Which which);
  /// See KvCache.
  Result<CellMoves> copy(int32_t from, int32_t to, int64_t begin, int64_t end);
  Result<CellMoves> shift(int32_t sequence, int64_t begin, int64_t end, int32_t delta);

  // --- retained blocks: references that belong to no sequence

  /// The positions of this group before a token at `position` that it sees.
  struct Range {
    int64_t begin, end;
    int64_t n_blocks() const;  // in which they are
  };
  Range seen_before(int64_t position) const;
  /// The sequence must have a block there.
  int32_t retain(int32_t sequence, int64_t logical);
  void release(int32_t block) { pool_.release_retained(block); }
  bool is_retained(int32_t block) const { return pool_.is_retained(block); }
  /// An empty sequence stores positions [begin, end) in retained blocks, which are in the order of positions.
  Result<> attach(int32_t sequence, std::span<const int32_t> blocks, int64_t begin, int64_t end);
  /// The sequence uses a retained block with the same contents instead of its own one.
  Result<> merge(int32_t sequence, int64_t logical, int32_t block);

 private:
  // Of the table, for a logical block.
  struct Entry {
    int32_t block = -1;
    bool is_fresh = false;  // all its positions are of the batch that is being decoded
    uint64_t valid = 0;
  };

  Entry& entry(int32_t sequence, int64_t logical) {
    return table_[to_size(sequence) * to_size(size_.n_max_blocks) + to_size(logical)];
  }
  const Entry& entry(int32_t sequence, int64_t logical) const {
    return const_cast<KvGroup*>(this)->entry(sequence, logical);
  }
  void hold_from(int32_t sequence, int64_t logical);
  Result<> make_writable(int32_t sequence, int64_t logical);
  Result<> drop(int32_t sequence, int64_t logical);
  Result<> copy_block(int32_t from, int32_t to);
  Result<> publish(int32_t sequence, int64_t logical);
  Result<> publish(int32_t sequence, int64_t logical, std::span<const int32_t> blocks, std::span<const uint64_t> valid);

  int64_t window_, stride_;
  Size size_;
  BlockPool pool_;
  std::vector<Entry> table_;    // [n_sequences][n_max_blocks]; its part of the tables below mirrors it on the device
  std::vector<int64_t> first_;  // [n_sequences]: entries before it are empty
  KvTables* tables_;
  std::vector<const Tensor*> data_;
};

/// The tokens that store something in a group: all of them, or in a group of entries those that complete one, with its
/// number as their position. `entries` keeps the latter.
std::span<const BatchToken> tokens_in(const KvGroup& group, std::span<const BatchToken> tokens,
                                      std::vector<BatchToken>& entries);

}  // namespace tessera
