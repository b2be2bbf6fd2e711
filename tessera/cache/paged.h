// The paged KV cache: keys and values of many sequences in blocks of 64 tokens.
//
// The table of a sequence names a physical block for each 64 positions: position p is at block offset p % 64 of the
// block of entry p / 64. So the offset of a token in its block depends only on its position, and attention visits
// blocks in an order that depends only on positions. Results are the same bits whatever else the cache holds or held.
//
// Layers with the same attention window and stride share tables (KvGroup). Group 0 holds every stored position, even if
// all layers have a window: it is the record of the stored positions. A group with a window forgets blocks that no
// later token can see, but keeps the positions that a sequence needs after a rollback by kRollbackTokens. The cache
// refuses every token that would attend to a forgotten position, so forgetting never changes a result.
//
// Layers with a stride also keep an entry for each `stride` positions, which stands for them when the window has
// passed. Entries have a group of their own, after the group of the positions, and are never forgotten. In the tables
// of such layers the first n_entry_blocks() columns are for entries, and those of positions follow: for attention,
// position p is at table position 64 * n_entry_blocks() + p. In K and V, the blocks of entries come after those of
// positions. An entry depends on all positions up to its last one, so with such layers a sequence has no gaps: it grows
// and shrinks at its end, is copied from its start, and is not shifted.
//
// The cache keeps the tables. Keys and values change only in graphs (kv_store), and in the cell moves that copy() and
// shift() return.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/tensor_memory.h"
#include "tessera/base/index.h"
#include "tessera/cache/kv_group.h"
#include "tessera/cache/saved_part.h"

namespace tessera {

struct KvLayerShape {
  int64_t n_heads_kv = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;            // 0: no V of its own (it is part of K)
  int64_t window = 0;           // > 0: a token at p sees only positions above p - window
  int64_t stride = 0;           // > 0: the layer also keeps an entry for each `stride` positions; it then has a window
  std::optional<DType> type{};  // of K and V; none: the types of the cache
  bool operator==(const KvLayerShape&) const = default;
};

struct KvCacheConfig {
  std::vector<KvLayerShape> layers;
  DType type_k = DType::f16;
  DType type_v = DType::f16;
  int64_t n_ctx = 0;                     // tokens over all sequences, and the bound of any position
  int32_t n_sequences = 1;               // sequence ids are 0 to n_sequences - 1
  int64_t n_ubatch = 512;                // most tokens of one reserve()
  int64_t n_retained_tokens = 0;         // room for retained blocks, beyond that of n_ctx
  int32_t n_marks = 0;                   // number of retain_windows() for which groups with a window have room
  std::vector<const Device*> devices{};  // by layer; empty: one for all
};

inline constexpr int32_t kMaxSequences = 1024;
inline constexpr int64_t kMaxContext = int64_t{1} << 24;
inline constexpr int64_t kMaxRetainedTokens = int64_t{1} << 30;
inline constexpr int32_t kMaxMarks = 1 << 16;

/// Bytes of the K and the V of one token in one layer, all heads.
struct KvTokenBytes {
  size_t k = 0;
  size_t v = 0;  // 0: the layer has no V of its own
};

class KvCache {
 public:
  /// Computes layout and size; allocates nothing. Layers are on config.devices, or all on `device`. The tables of a
  /// group are on the device of its layers, or on `device` if the layers are on several. Errors: invalid_argument (a
  /// type that a layer's device cannot keep, a context or number of sequences out of range).
  static Result<std::unique_ptr<KvCache>> plan(const Device& device, KvCacheConfig config);

  const KvCacheConfig& config() const { return config_; }
  std::vector<TypeBytes> planned_memory() const { return memory_.planned(); }
  size_t bytes() const { return total_bytes(planned_memory()); }
  Result<> allocate();
  std::vector<TypeBytes> allocated_memory() const { return memory_.allocated(); }
  size_t allocated_bytes() const { return total_bytes(allocated_memory()); }

  // --- for graphs

  const Tensor& k(int64_t layer) const { return k_[to_size(layer)]; }
  bool has_v(int64_t layer) const { return config_.layers[to_size(layer)].v_dim > 0; }
  /// Only if has_v().
  const Tensor& v(int64_t layer) const { return v_[to_size(layer)]; }
  std::span<const KvGroup> groups() const { return groups_; }
  /// Of the layer's positions. A layer with a stride has its entries in entries_of() this group.
  size_t group_of(int64_t layer) const { return group_of_layer_[to_size(layer)]; }
  std::optional<size_t> entries_of(size_t group) const;
  bool is_in_group(int64_t layer, size_t group) const;
  /// Whether a layer has a stride.
  bool has_entries() const { return has_entries_; }
  /// Logical blocks of entries, of the layers of a group, in front of those of its positions in the tables.
  int64_t n_entry_blocks(size_t group) const;
  /// Errors: limit (the size overflows).
  Result<KvTokenBytes> token_bytes(int64_t layer) const;

  // --- decoding: a batch is reserved in parts, then commit() or rollback() ends it

  /// Refuses sequences and positions that are out of range. Errors: invalid_argument.
  Result<> require_positions(std::span<const BatchToken> tokens) const;
  /// Makes room for a micro-batch and marks its positions stored. cells[g] gets the cell of each token in group g; in a
  /// group of entries the cell of the entry that the token completes, or -1. Errors: invalid_argument (a sequence or
  /// position out of range, a position stored already, one that would see forgotten positions, or with entries one that
  /// does not follow the last one); limit (the cache is full). After an error nothing of the micro-batch is stored.
  Result<> reserve(std::span<const BatchToken> tokens, std::vector<std::vector<int32_t>>& cells);
  /// The batch has succeeded: groups with a window forget positions that no later token can see.
  Result<> commit();
  /// The batch has failed: the cache holds the same positions as before it.
  Result<> rollback();

  // --- sequences, between batches; ranges of positions are [begin, end)

  /// Forgets the positions of a sequence in the range. Errors: invalid_argument (the sequence would end at a position
  /// that attends to forgotten positions, see lowest_rollback(); with entries, later positions would stay).
  Result<> remove(int32_t sequence, int32_t begin, int32_t end);
  /// Forgets all other sequences.
  Result<> keep(int32_t sequence);
  Result<> clear();
  /// Gives `to` the positions of `from` in the range. Whole blocks are shared until one of the sequences writes. If
  /// `to` has a block already, the caller must move the returned cells, by group; with entries there are none. Errors:
  /// invalid_argument (`to` has some of these positions, or would see forgotten positions; with entries, `to` is not
  /// empty, or the range begins within `from`); limit (full).
  Result<std::vector<CellMoves>> copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  /// Adds delta to the positions in the range. The caller must move the returned cells, by group. Errors:
  /// invalid_argument (a position would leave [0, n_ctx) or collide with one that stays, the sequence would see
  /// forgotten positions, or the cache has entries); limit (full).
  Result<std::vector<CellMoves>> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta);
  /// Replaces a sequence. Group g then holds positions[g], ascending, and group 0 all positions. `cells` gets the cell
  /// of each. Errors: as reserve(); after an error the sequence is unchanged. replace() succeeds if
  /// require_replaceable() does.
  Result<> require_replaceable(int32_t sequence, std::span<const std::vector<int32_t>> positions) const;
  Result<> replace(int32_t sequence, std::span<const std::vector<int32_t>> positions,
                   std::vector<std::vector<int32_t>>& cells);

  /// The positions of a sequence that a group holds, ascending, and the cell of each.
  struct Cells {
    std::vector<int32_t> positions;
    std::vector<int32_t> cells;
  };
  Result<Cells> cells(int32_t sequence, size_t group = 0) const;

  // --- retained blocks, between batches: references that stay when the sequence goes (retained.cpp)

  /// Whether a group has a window. A sequence can then continue only at the positions of retain_windows().
  bool has_windows() const { return groups_.size() > 1; }
  /// The positions of a part in its group; of a group of entries, their numbers.
  KvGroup::Range positions_of(const SavedPart& part) const;
  /// Retains the block of group 0 for 64 positions of a sequence. It may be filled in part, from its first position on.
  /// Errors: invalid_argument (no such sequence or block, or a position is missing).
  Result<int32_t> retain_block(int32_t sequence, int64_t logical);
  void release_block(int32_t block) { groups_[0].release(block); }
  /// Retains the blocks that the next token of a sequence sees, by group; none of group 0. Of entries it sees all.
  /// Errors: invalid_argument (no such sequence, or a position is missing).
  using WindowBlocks = std::vector<std::vector<int32_t>>;
  Result<WindowBlocks> retain_windows(int32_t sequence);
  void release_windows(const WindowBlocks& windows);
  /// Gives an empty sequence positions 0 to n_positions - 1, all in retained blocks: one of group 0 for each 64
  /// positions, and the blocks of retain_windows() at n_positions if has_windows(). Blocks are shared until the
  /// sequence writes. Errors: invalid_argument (the sequence has positions, or a position is out of range); internal (a
  /// wrong number of blocks, or one that is not retained).
  Result<> require_attachable(int32_t sequence, std::span<const int32_t> blocks, const WindowBlocks& windows,
                              int32_t n_positions) const;
  Result<> attach(int32_t sequence, std::span<const int32_t> blocks, const WindowBlocks& windows, int32_t n_positions);
  /// Lets a sequence use a retained block of group 0 for 64 positions, instead of its own block with the same tokens.
  /// Errors: invalid_argument (the sequence has not all of these positions); internal (the block is not retained).
  Result<> merge_block(int32_t sequence, int64_t logical, int32_t block);
  /// For parts that come from elsewhere (saved_part.h). cut_for_parts(): group 0 keeps the positions before
  /// n_positions, other groups none. store_part(): a group holds the rows of a part, and the result is their cells.
  /// Errors: invalid_argument (a position out of range, or held already); limit (full).
  Result<> cut_for_parts(int32_t sequence, int32_t n_positions);
  Result<std::vector<int32_t>> store_part(int32_t sequence, const SavedPart& part);
  Result<> drop_part(int32_t sequence, const SavedPart& part);
  /// The free blocks, by group, that a batch needs. It fits if every group has as many.
  std::vector<int64_t> blocks_to_decode(std::span<const BatchToken> tokens) const;

  /// The lowest and highest stored positions.
  std::optional<int32_t> min_position(int32_t sequence) const;
  std::optional<int32_t> max_position(int32_t sequence) const;
  /// The lowest position from which a sequence can be removed to its end and decoded anew; 0 if no position is
  /// forgotten. No value: no such sequence.
  std::optional<int32_t> lowest_rollback(int32_t sequence) const;

 private:
  KvCache() = default;
  Result<> add_groups();
  Result<> add_group(int64_t window, int64_t stride);
  Result<> add_layers(const Device& device);
  Result<> add_tables(const Device& device);
  const Device& device_of(size_t layer, const Device& otherwise) const;
  Result<> require_sequence(int32_t sequence) const;
  Result<> require_visible(std::span<const BatchToken> tokens) const;
  Result<> require_next(std::span<const BatchToken> tokens) const;
  Result<> require_removable(int32_t sequence, int32_t begin, int32_t end) const;
  Result<> require_copyable(int32_t from, int32_t to, int32_t begin, int32_t end) const;
  Result<> require_visible_after(const char* operation, int32_t sequence,
                                 std::span<const std::vector<uint64_t>> images) const;
  bool sees_forgotten(const KvGroup& group, int32_t sequence, int64_t position) const;
  Error forgotten(const std::string& what, int64_t position, int32_t sequence, const KvGroup& group) const;

  KvCacheConfig config_;
  std::vector<std::unique_ptr<KvTables>> tables_;
  std::vector<KvGroup> groups_;  // a group of entries is after the group of the same layers
  bool has_entries_ = false;
  std::vector<size_t> group_of_layer_;
  std::vector<BatchToken> pending_;  // of the batch that is being decoded
  std::vector<Tensor> k_, v_;        // by layer; an empty tensor if a layer has no V
  TensorMemory memory_;
};

}  // namespace tessera
