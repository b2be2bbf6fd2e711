// The memory of sequences: all that a model keeps of the tokens that it has computed. Keys and values are in a KvCache,
// keys and values of an encoder's output in a second one, and the states of recurrent layers in a RecurrentCache.
// Callers use one object: an operation changes all of them, or none if it returns an error about its arguments.
//
// Every model has a RecurrentCache. Without recurrent layers it is empty, needs no memory and refuses nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/cache/cell_access.h"
#include "tessera/cache/paged.h"
#include "tessera/cache/recurrent.h"
#include "tessera/cache/saved_part.h"

namespace tessera {

struct SequenceMemoryConfig {
  std::vector<KvLayerShape> kv_layers;                  // of the tokens that are decoded
  std::vector<KvLayerShape> prompt_layers{};            // of an encoder's output; empty: no encoder
  std::vector<RecurrentLayerShape> recurrent_layers{};  // empty: none
  std::vector<const Device*> kv_devices{};              // by layer; empty: one for all
  std::vector<const Device*> prompt_devices{};          // likewise
  std::vector<const Device*> recurrent_devices{};       // likewise
  DType type_k = DType::f16;
  DType type_v = DType::f16;
  int64_t n_ctx = 0;              // tokens over all sequences, and the bound of any position
  int32_t n_sequences = 1;        // sequence ids are 0 to n_sequences - 1
  int64_t n_ubatch = 512;         // maximum number of tokens of one reserve()
  int32_t n_checkpoints = 0;      // of recurrent states, over all sequences
  int64_t n_retained_tokens = 0;  // room for retained blocks, beyond that of n_ctx
  int32_t n_marks = 0;            // room for retained marks
};

/// A position at which sequences can continue later, and what the next token sees there beside the blocks of group 0:
/// blocks of the groups with a window or of entries, and the recurrent state.
struct Mark {
  int32_t n_positions = 0;
  KvCache::WindowBlocks windows{};  // by group
  int32_t state_slot = -1;          // -1: no recurrent layers
};

/// The storage of the tokens of a micro-batch, as inputs of its graph.
struct Reservation {
  std::vector<std::vector<int32_t>> cells;  // by group of the KV cache, then token
  std::vector<int32_t> segments;            // of recurrent layers (graph/ops/recurrent.h); empty: there are none
};

class SequenceMemory {
 public:
  /// Computes layout and size; allocates nothing. Errors: those of KvCache::plan() and RecurrentCache::plan().
  static Result<std::unique_ptr<SequenceMemory>> plan(const Device& device, SequenceMemoryConfig config);

  /// Bytes by type of buffer.
  std::vector<TypeBytes> planned_memory() const;
  Result<> allocate();
  std::vector<TypeBytes> allocated_memory() const;

  // --- for graphs

  const KvCache& kv() const { return *caches_.front(); }
  const RecurrentCache& states() const { return *states_; }
  bool is_recurrent() const { return !states_->config().layers.empty(); }
  bool has_encoder() const { return caches_.size() > 1; }
  /// Keys and values of the encoder's output, if has_encoder(). Its sequences are those of kv().
  const KvCache& prompts() const { return *caches_.back(); }

  // --- decoding: a batch is reserved in micro-batches, then commit() or rollback() ends it

  /// Refuses sequences and positions that are out of range. Errors: invalid_argument.
  Result<> require_positions(std::span<const BatchToken> tokens) const { return kv().require_positions(tokens); }
  /// Refuses sequences without a prompt, if the model has an encoder. Errors: invalid_argument.
  Result<> require_prompts(std::span<const BatchToken> tokens) const;
  /// Makes room for a micro-batch and marks its positions stored. Errors: as KvCache::reserve() and
  /// RecurrentCache::reserve(); the caller then rolls back.
  Result<> reserve(std::span<const BatchToken> tokens, Reservation& reservation);
  /// Likewise for a prompt that an encoder computes; all tokens belong to one sequence, which has no prompt yet.
  Result<> reserve_prompt(std::span<const BatchToken> tokens, Reservation& reservation);
  /// The batch has succeeded: new states replace the old ones, and layers with a window forget old positions.
  Result<> commit();
  /// The batch has failed: everything is as it was before the batch.
  Result<> rollback();

  // --- sequences, between batches; ranges of positions are [begin, end). A recurrent state can be rolled back only to
  // a checkpoint, and is copied and shifted as a whole. Prompts stay, except where noted.

  /// Forgets the positions of a sequence in the range. Errors: invalid_argument (no rollback to there; with entries,
  /// later positions would stay).
  Result<> remove(int32_t sequence, int32_t begin, int32_t end);
  Result<> remove_prompt(int32_t sequence);
  /// Forgets all other sequences, or all of them, and their prompts. Errors: invalid_argument (no such sequence).
  Result<> keep(int32_t sequence);
  Result<> clear();
  /// Gives `to` the positions of `from` in the range, and its prompt. Errors: invalid_argument (positions that `to`
  /// has, a part of a recurrent state, entries without those before them); limit (no room).
  Result<> copy(int32_t from, int32_t to, int32_t begin, int32_t end, CellAccess& access);
  /// Adds delta to the positions in the range. Errors: invalid_argument (a position out of range or taken, a part of
  /// a recurrent state, entries); limit (no room).
  Result<> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta, CellAccess& access);

  /// Keeps the recurrent state of a sequence as it is now, so that remove() can roll back to it. Does nothing for
  /// models without recurrent layers. Errors: as RecurrentCache::checkpoint().
  Result<> checkpoint(int32_t sequence) { return states_->checkpoint(sequence); }
  Result<> drop_checkpoints(int32_t sequence) { return states_->drop_checkpoints(sequence); }

  /// The lowest and highest position of a sequence. A recurrent state has only the last one.
  std::optional<int32_t> min_position(int32_t sequence) const;
  std::optional<int32_t> max_position(int32_t sequence) const { return kv().max_position(sequence); }
  /// The lowest position from which a sequence can be decoded anew without a checkpoint. No value: no such sequence.
  std::optional<int32_t> lowest_rollback(int32_t sequence) const;

  // --- retained memory, between batches: references that stay when the sequence goes. The caller releases them. A
  // model with an encoder has none, because its tokens depend on the prompt.

  /// Whether sequences can continue only at marks: some layers have a window, entries or a recurrent state.
  bool needs_marks() const { return kv().has_windows() || is_recurrent(); }
  /// See KvCache. Errors: also unsupported (the model has an encoder).
  Result<int32_t> retain_block(int32_t sequence, int64_t logical);
  void release_block(int32_t block) { caches_.front()->release_block(block); }
  Result<> merge_block(int32_t sequence, int64_t logical, int32_t block) {
    return caches_.front()->merge_block(sequence, logical, block);
  }
  /// Retains a mark at the end of a sequence. Errors: invalid_argument (the sequence is empty, or has holes that the
  /// next token would see); limit (n_marks states are retained); unsupported (the model has an encoder).
  Result<Mark> retain_mark(int32_t sequence);
  void release_mark(const Mark& mark);
  /// The states that can be retained now; a large number without recurrent layers.
  int64_t n_free_marks() const;
  /// Gives an empty sequence positions 0 to n_positions - 1: see KvCache::attach(). If needs_marks(), `mark` is the one
  /// at n_positions; else it is ignored. Errors: those of KvCache::attach() and RecurrentCache::attach(); unsupported
  /// (the model has an encoder). After an error the sequence is empty.
  Result<> attach(int32_t sequence, std::span<const int32_t> blocks, int32_t n_positions, const Mark& mark);

  // --- parts of prefixes as bytes (saved_part.h): of each layer the K rows, then the V rows, in the types of the
  // cache; or the states. Errors of all: unsupported (the model has an encoder).

  /// The parts at a mark beside the whole blocks of group 0.
  std::vector<SavedPart> parts_of_mark(int32_t n_positions) const;
  /// The physical block or state slot of a window or state in a mark; -1: the mark has no such part.
  int32_t place_of(const SavedPart& part, const Mark& mark) const;
  /// Errors: also invalid_argument (no such rows).
  Result<size_t> part_bytes(const SavedPart& part) const;
  /// Errors: also invalid_argument (the block or state slot is not retained).
  Result<std::vector<std::byte>> save_part(const SavedPart& part, int32_t place, CellAccess& access) const;
  /// Prepares a sequence for restore_part(): it keeps the first positions, a multiple of 64, without windows and state.
  /// It cannot be decoded until all parts of a mark are restored. Errors: also invalid_argument.
  Result<> cut_for_parts(int32_t sequence, int32_t n_positions);
  /// Adds a part to a sequence, which must end where the rows of a block begin, or where a state ends. Windows come
  /// after blocks. Errors: also invalid_argument (the sequence ends elsewhere, the number of bytes); limit (no room).
  /// After an error the sequence is as it was.
  Result<> restore_part(int32_t sequence, const SavedPart& part, std::span<const std::byte> saved, CellAccess& access);

  // --- one sequence as bytes (saved_sequence.cpp)

  /// Positions, keys, values, recurrent states and prompt of a sequence: a versioned, checksummed block of bytes.
  /// `fingerprint` identifies the model. Errors: invalid_argument (no such sequence).
  Result<std::vector<std::byte>> save(int32_t sequence, uint64_t fingerprint, CellAccess& access) const;
  /// The bytes that save() gives now, without copying them. Errors: as save().
  Result<uint64_t> saved_bytes(int32_t sequence) const;
  /// The most bytes of a sequence that restore() may take. Errors: those of KvCache::token_bytes().
  Result<uint64_t> most_saved_bytes() const;
  /// Replaces a sequence by a saved one. Errors: format (damaged); unsupported (its version); mismatch (another model,
  /// other types); limit (no room). After such an error the sequence is as it was.
  Result<> restore(int32_t sequence, uint64_t fingerprint, std::span<const std::byte> saved, CellAccess& access);

 private:
  SequenceMemory() = default;
  std::span<const std::unique_ptr<KvCache>> prompt_caches() const { return std::span(caches_).subspan(1); }
  Result<> forget_states(int32_t sequence);
  Result<> require_retainable() const;

  std::vector<std::unique_ptr<KvCache>> caches_;  // of tokens, then of prompts if there is an encoder
  std::unique_ptr<RecurrentCache> states_;
};

}  // namespace tessera
