// The states of recurrent layers: per layer some tensors f32 [n_elements, n_state_slots]. A sequence's state is one
// state slot: the same column of all tensors.
//
// A batch never writes a state slot that a sequence or a checkpoint refers to. It reads the sequence's slot and writes
// another one, to which the sequence switches when the whole batch has succeeded. So copies and checkpoints are
// references, and an error changes no state. Two slots per sequence, one per checkpoint and one per retained state are
// enough.
//
// A state cannot be rolled back to any position. It is at its last position, or at a checkpoint.
//
// A cache without layers needs no memory, holds no state and refuses no position.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/tensor_memory.h"
#include "tessera/base/index.h"
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
  int32_t n_retained = 0;                // retained states
  std::vector<const Device*> devices{};  // by layer; empty: one for all
};

inline constexpr int32_t kMaxCheckpoints = 4096;
inline constexpr int32_t kMaxRetainedStates = 1 << 16;

class RecurrentCache {
 public:
  /// Computes layout and size; allocates nothing. Layers are on config.devices, or all on `device`. Errors:
  /// invalid_argument (a number out of range), limit (overflow).
  static Result<std::unique_ptr<RecurrentCache>> plan(const Device& device, RecurrentCacheConfig config);

  const RecurrentCacheConfig& config() const { return config_; }
  std::vector<TypeBytes> planned_memory() const { return memory_.planned(); }
  size_t bytes() const { return total_bytes(planned_memory()); }
  Result<> allocate() { return memory_.allocate(BufferUsage::cache); }
  std::vector<TypeBytes> allocated_memory() const { return memory_.allocated(); }

  // --- for graphs

  /// State `kind` of a layer, f32 [n_elements, n_state_slots].
  const Tensor& state(int64_t layer, int64_t kind) const { return states_[to_size(layer)][to_size(kind)]; }
  /// Number of integers in the description of the segments (graph/ops/recurrent.h) of a micro-batch.
  int64_t n_segment_entries(int64_t n_tokens) const;

  // --- decoding: a batch is reserved in micro-batches, then commit() or discard() ends it

  /// Assigns state slots to the next micro-batch; `segments` gets the slots that each sequence reads and writes.
  /// Without layers `segments` is empty. Errors: invalid_argument (a sequence out of range; a position that does not
  /// follow the last one of its sequence). After an error nothing of the micro-batch is reserved.
  Result<> reserve(std::span<const BatchToken> tokens, std::vector<int32_t>& segments);
  /// The batch has succeeded: its states replace the old ones.
  void commit();
  /// The batch has failed: every sequence keeps its old state.
  void discard();

  // --- sequences; ranges of positions are [begin, end)

  /// Refuses arguments with which remove(), copy() or shift() would fail. Errors: invalid_argument, with the reason.
  Result<> require_removable(int32_t sequence, int32_t begin, int32_t end) const;
  Result<> require_copyable(int32_t from, int32_t to, int32_t begin, int32_t end) const;
  Result<> require_shiftable(int32_t sequence, int32_t begin, int32_t end) const;

  /// Forgets the positions in the range: all positions of a sequence, or all after a checkpoint.
  Result<> remove(int32_t sequence, int32_t begin, int32_t end);
  /// `to`, which has no state, shares the state of `from`, without its checkpoints.
  Result<> copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  /// Adds delta to the positions of a sequence, if the range has all of them; the state stays the same.
  Result<> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta);

  /// Keeps the state after the last position, so that remove() can roll back to it. Does nothing without layers.
  /// Errors: invalid_argument (no such sequence, or it has no state); limit (n_checkpoints are kept already).
  Result<> checkpoint(int32_t sequence);
  Result<> drop_checkpoints(int32_t sequence);
  /// The last positions of a sequence's checkpoints, ascending.
  std::vector<int32_t> checkpoints(int32_t sequence) const;

  /// The last position; no value if the sequence has no state.
  std::optional<int32_t> last_position(int32_t sequence) const;

  // --- retained states: references to state slots, which stay when the sequence goes

  /// Retains the state after the last position of a sequence, and returns its slot; -1 without layers. Errors:
  /// invalid_argument (no such sequence, or it has no state); limit (n_retained are retained already).
  Result<int32_t> retain(int32_t sequence);
  void release(int32_t state_slot);
  int32_t n_free_retained() const { return config_.n_retained - n_retained_; }
  /// A sequence without a state gets a retained one, after positions 0 to last. Does nothing without layers. Errors:
  /// invalid_argument (no such sequence, or it has a state); internal (the state is not retained).
  Result<> require_attachable(int32_t sequence, int32_t state_slot) const;
  Result<> attach(int32_t sequence, int32_t state_slot, int32_t last);

  // --- state as bytes

  size_t state_bytes() const { return state_bytes_; }
  /// Copies the state of a sequence, which must have one, to state_bytes() bytes.
  Result<> save(int32_t sequence, std::span<std::byte> bytes) const;
  /// Likewise a retained state. Errors: invalid_argument (it is not retained).
  Result<> save_retained(int32_t state_slot, std::span<std::byte> bytes) const;
  /// Replaces the state of a sequence by a saved one, after positions first to last. Does nothing without layers.
  Result<> restore(int32_t sequence, int32_t first, int32_t last, std::span<const std::byte> bytes);

 private:
  struct Checkpoint {
    int32_t last;
    int32_t state_slot;
  };
  struct Sequence {
    int32_t state_slot = -1;  // -1: no state
    int32_t first = 0, last = 0;
    std::vector<Checkpoint> checkpoints{};  // ascending
  };
  // A sequence in the batch that is being computed.
  struct Pending {
    int32_t state_slot = -1;  // the slot that the batch writes; -1: the batch has no token of the sequence yet
    int32_t first = 0, last = 0;
  };

  explicit RecurrentCache(int32_t n_state_slots) : pool_(n_state_slots) {}
  Sequence& at(int32_t sequence) { return sequences_[to_size(sequence)]; }
  const Sequence& at(int32_t sequence) const { return sequences_[to_size(sequence)]; }
  Result<> require_sequence(int32_t sequence) const;
  Result<> require_next_positions(std::span<const BatchToken> tokens) const;
  Result<> read_state(int32_t state_slot, std::span<std::byte> bytes) const;
  static bool is_outside(const Sequence& sequence, int32_t begin, int32_t end);
  static bool is_whole(const Sequence& sequence, int32_t begin, int32_t end);
  void forget(Sequence& sequence);
  void drop_checkpoints_after(Sequence& sequence, int32_t last);

  RecurrentCacheConfig config_;
  BlockPool pool_;  // of state slots
  std::vector<Sequence> sequences_;
  std::vector<Pending> pending_;  // by sequence
  int32_t n_checkpoints_ = 0;
  int32_t n_retained_ = 0;
  std::vector<std::vector<Tensor>> states_;  // by layer and kind
  size_t state_bytes_ = 0;
  TensorMemory memory_;
};

}  // namespace tessera
