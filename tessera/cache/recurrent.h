// The state of recurrent layers: per layer some tensors f32 [n_elements, n_slots]; a sequence's state is one slot of
// all of them.
//
// A slot that a sequence or a checkpoint names is not written: a batch begins from the sequence's slot, writes another,
// and the sequence moves there when the whole batch has succeeded. So copies and checkpoints are references, and an
// error leaves all as it was. At most every sequence has a slot and writes another: two per sequence, and one per
// checkpoint, are enough.
//
// A state cannot be wound back: it is at its last position, or where a checkpoint was taken.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/tensor_memory.h"
#include "tessera/batch/batch.h"
#include "tessera/cache/block_pool.h"

namespace tessera {

/// Elements of each of a layer's states.
struct RecurrentLayerShape {
  std::vector<int64_t> n_elements;
};

struct RecurrentCacheConfig {
  std::vector<RecurrentLayerShape> layers;
  int32_t n_sequences = 1;               // sequence ids are 0 to n_sequences - 1
  int32_t n_checkpoints = 0;             // over all sequences
  std::vector<const Device*> devices{};  // by layer; empty: one for all
};

inline constexpr int32_t kMaxCheckpoints = 4096;

class RecurrentCache {
 public:
  /// Computes layout and size; allocates nothing. Layers lie on config.devices, or all on this one. Errors:
  /// invalid_argument (a number out of range), limit (overflow).
  static Result<std::unique_ptr<RecurrentCache>> plan(const Device& device, RecurrentCacheConfig config);

  const RecurrentCacheConfig& config() const { return config_; }
  std::vector<TypeBytes> planned_memory() const { return memory_.planned(); }
  size_t bytes() const { return total_bytes(planned_memory()); }
  Result<> allocate() { return memory_.allocate(BufferUsage::cache); }
  std::vector<TypeBytes> allocated_memory() const { return memory_.allocated(); }

  // --- for graphs

  /// State `kind` of a layer, f32 [n_elements, n_slots].
  const Tensor& state(int64_t layer, int64_t kind) const {
    return states_[static_cast<size_t>(layer)][static_cast<size_t>(kind)];
  }
  /// Integers of the runs (graph/ops/recurrent.h) of a micro-batch.
  int64_t n_run_entries(int64_t n_tokens) const;

  // --- decoding: micro-batches are reserved one after another, then the batch is committed or discarded.

  /// Where the next micro-batch's tokens find and leave their states. All or nothing.
  /// Errors: invalid_argument (a sequence out of range; a position that does not follow its sequence's last).
  Result<> reserve(std::span<const BatchToken> tokens, std::vector<int32_t>& runs);
  /// What was reserved is computed: the sequences move on.
  void commit();
  /// What was reserved is forgotten: the sequences are where they were.
  void discard();

  // --- sequences; ranges of positions are [begin, end)

  /// Whether remove(), copy() and shift() would succeed. Errors: invalid_argument, saying what can be done.
  Result<> want_removable(int32_t sequence, int32_t begin, int32_t end) const;
  Result<> want_copyable(int32_t from, int32_t to, int32_t begin, int32_t end) const;
  Result<> want_shiftable(int32_t sequence, int32_t begin, int32_t end) const;

  /// Forgets the positions in the range: all that a sequence has, or all after a checkpoint.
  Result<> remove(int32_t sequence, int32_t begin, int32_t end);
  /// `to`, which has nothing, shares all that `from` has; without its checkpoints.
  Result<> copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  /// Adds delta to the positions in the range, which has all of them or none; the state stays.
  Result<> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta);

  /// Keeps the state after the last position, so that remove() can go back to it. Errors: invalid_argument (the
  /// sequence has no state); limit (n_checkpoints are kept already).
  Result<> checkpoint(int32_t sequence);
  Result<> drop_checkpoints(int32_t sequence);
  /// The last positions of a sequence's checkpoints, ascending.
  std::vector<int32_t> checkpoints(int32_t sequence) const;

  /// The last position; nothing where the sequence has no state.
  std::optional<int32_t> last_position(int32_t sequence) const;

  // --- state as bytes

  size_t state_bytes() const { return state_bytes_; }
  /// The state of a sequence that has one, into state_bytes() bytes.
  Result<> save(int32_t sequence, std::span<std::byte> bytes) const;
  /// Gives a sequence, in the place of what it has, the state after positions first to last.
  Result<> restore(int32_t sequence, int32_t first, int32_t last, std::span<const std::byte> bytes);

 private:
  struct Checkpoint {
    int32_t last;
    int32_t slot;
  };
  struct Sequence {
    int32_t slot = -1;  // -1: no state
    int32_t first = 0, last = 0;
    std::vector<Checkpoint> checkpoints{};  // ascending
  };
  /// Where a sequence is while a batch is computed.
  struct Pending {
    int32_t slot = -1;  // -1: the batch has none of its tokens yet
    int32_t first = 0, last = 0;
  };

  explicit RecurrentCache(int32_t n_slots) : pool_(n_slots) {}
  Sequence& at(int32_t sequence) { return sequences_[static_cast<size_t>(sequence)]; }
  const Sequence& at(int32_t sequence) const { return sequences_[static_cast<size_t>(sequence)]; }
  Result<> want_sequence(int32_t sequence) const;
  Result<> want_next_positions(std::span<const BatchToken> tokens) const;
  static bool is_outside(const Sequence& sequence, int32_t begin, int32_t end);
  static bool is_whole(const Sequence& sequence, int32_t begin, int32_t end);
  void forget(Sequence& sequence);
  void drop_checkpoints_after(Sequence& sequence, int32_t last);

  RecurrentCacheConfig config_;
  BlockPool pool_;
  std::vector<Sequence> sequences_;
  std::vector<Pending> pending_;  // by sequence
  int32_t n_checkpoints_ = 0;
  std::vector<std::vector<Tensor>> states_;  // by layer and kind
  size_t state_bytes_ = 0;
  TensorMemory memory_;
};

}  // namespace tessera
