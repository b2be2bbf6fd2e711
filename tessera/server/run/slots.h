// The slots of a session: sequences of its cache that can be in a batch. All slots share the prefix cache: what one has
// computed, any other can continue.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/prefix_cache.h"
#include "tessera/engine/session.h"
#include "tessera/engine/speculative/speculator.h"
#include "tessera/server/run/moved_chunks.h"
#include "tessera/server/run/sequence.h"

namespace tessera::server {

/// The sequence that a slot had last, for GET /slots.
struct PastSequence {
  uint64_t task = 0;
  int64_t n_prompt = 0, n_prompt_computed = 0, n_cached = 0;  // as of Sequence; of the prompt's tokens
  bool has_new_line = false;
  std::string client{};
  int priority = 0;
  std::shared_ptr<const GenerationFields> fields{};
};

struct Slot {
  int32_t id = 0;                        // the sequence id in the session
  std::shared_ptr<Sequence> sequence{};  // null: idle
  int64_t n_computed = 0;                // tokens of the sequence that the session holds
  std::vector<int32_t> last_tokens{};    // of an idle slot: what its last sequence had computed
  PrefixRoot last_root{};                // under which the prefix cache keeps them
  std::optional<PastSequence> past{};    // nothing before its first sequence has ended
  uint64_t last_use = 0;                 // greater is later
  bool is_paused = false;                // the client reads too slowly
  bool is_restoring = false;             // blocks of its sequence are read from the disk
  bool is_resumed = false;               // the sequence had a slot before
  int64_t n_from_memory = 0;             // tokens that it found in memory when it got the slot
  int priority = 0;                      // of the sequence
  uint64_t arrival = 0;                  // of the sequence in the queue

  // Of speculation.
  std::unique_ptr<Speculator> speculator{};  // null: none
  int64_t n_told = -1;                       // tokens of the sequence that the speculator knows; -1: the text is new
  std::vector<int32_t> guesses{};            // that the present step verifies, after all tokens of the sequence
  size_t n_right = 0;                        // those at the start of guesses that are tokens of the sequence now
  int64_t n_held = 0;  // tokens before the guesses that a recurrent state may lose again; not in n_computed

  bool is_idle() const { return sequence == nullptr; }
  /// Whether its sequence can be in a step.
  bool can_run() const { return sequence && !is_paused && !is_restoring; }
  /// Tokens that wait to be computed. A sequence that generates has few, mostly one.
  int64_t n_pending() const { return sequence ? sequence->n_tokens() - n_computed : 0; }
  bool is_decoding() const { return sequence && sequence->n_generated() > 0 && n_pending() <= kMostForced; }

  static constexpr int64_t kMostForced = 64;  // tokens that a grammar adds at once; more are computed like a prompt
};

/// The facts of a slot's sequence, which must be there.
PastSequence past_of(const Slot& slot);
/// Sequences of the same root share what they have computed.
PrefixRoot root_of(const Sequence& sequence);

class Slots {
 public:
  /// Prompt tokens between two marks of models that need marks.
  static constexpr int64_t kMarkSpacing = 8192;

  /// The session's sequences must be empty. It must outlive the result. Errors: those of PrefixCache::create().
  static Result<std::unique_ptr<Slots>> create(Session& session, int32_t n_slots);

  std::span<Slot> all() { return slots_; }
  std::span<const Slot> all() const { return slots_; }
  Slot& at(int32_t id) { return slots_[static_cast<size_t>(id)]; }
  size_t n_busy() const;
  bool has_idle() const { return n_busy() < slots_.size(); }
  const PrefixCache& cache() const { return *cache_; }

  /// Whether the blocks that a sequence needs are free or can be made free, beside those that running prompts will
  /// take.
  bool has_room(const Sequence& sequence) const;
  /// Gives a sequence an idle slot and the longest start of its tokens in the cache. A sequence that asks for a slot
  /// gets only the tokens that this slot held last. There must be an idle slot, the one that it asks for.
  Slot& assign(std::shared_ptr<Sequence> sequence);
  /// Makes room for a batch. Errors: limit (even without all that the cache keeps).
  Result<> make_room(const Batch& batch) { return cache_->make_room(batch.tokens()); }
  /// n more tokens of a slot are computed. They enter the cache block by block.
  void note_computed(Slot& slot, int64_t n_tokens);
  /// The most tokens that a slot may compute in a step: up to the next mark.
  int64_t tokens_to_mark(const Slot& slot) const;
  /// The sequence forgets tokens of its full context, and later ones move to their places. It does not share the cache
  /// from now on. False: the session cannot do that, and its memory of the sequence is of no use. At least 2 tokens are
  /// computed.
  bool shift(Slot& slot);
  /// The most guesses that a step may verify after the pending tokens of a slot: no mark may be among them.
  int64_t most_guesses(const Slot& slot) const;
  /// Counts the right guesses of a slot as computed, and removes the others from the session.
  void settle_guesses(Slot& slot);
  /// The step with the guesses of a slot has failed: the session does not hold them.
  void drop_guesses(Slot& slot);
  /// Takes the slot from its sequence, whose tokens stay in the cache.
  void release(Slot& slot);

  // --- parts of the disk tier

  /// The blocks that the cache has of a start of these tokens, as Session numbers them.
  std::vector<int32_t> blocks_of(std::span<const int32_t> tokens, const PrefixRoot& root) const {
    return cache_->blocks_of(root, tokens);
  }
  /// See PrefixCache.
  std::vector<int32_t> marks_of(std::span<const int32_t> tokens, const PrefixRoot& root) const {
    return cache_->marks_of(root, tokens);
  }
  PrefixCache::HeldMark mark_at(std::span<const int32_t> tokens, const PrefixRoot& root) const {
    return cache_->mark_at(root, tokens);
  }
  /// Begins to restore a slot: it keeps the first tokens, a multiple of 64. Returns whether that worked.
  bool begin_restore(Slot& slot, int64_t n_tokens);
  /// Gives a slot a saved part. Returns whether there is room.
  bool restore_part(Slot& slot, const SavedPart& part, std::span<const std::byte> saved);
  /// The slot has all parts of a mark at its last token. The mark enters the cache.
  void end_restore(Slot& slot);
  /// The slot begins anew, with the tokens that the cache has.
  void attach_again(Slot& slot);

  // --- saved slots, and an empty cache

  struct State {
    std::vector<int32_t> tokens{};
    std::vector<std::byte> bytes{};
  };
  /// The last tokens of an idle slot, as far as the cache still has them, and their state. Errors: those of
  /// Session::save_state().
  Result<State> save(const Slot& slot);
  /// Gives an idle slot saved tokens, which enter the cache. Errors: those of Session::restore_state() and of
  /// Session::set_adapters(); format (the state is not of these tokens). After an error the slot is as it was.
  Result<> restore(Slot& slot, const State& state, const PrefixRoot& root);
  /// Empties the cache. Idle slots hold nothing afterwards; running sequences go on and are not kept.
  void clear();

 private:
  Slots(Session& session, int32_t n_slots);
  void forget_positions(int32_t sequence);
  Result<> restore_state(int32_t sequence, const State& state);
  Slot& choose(const Sequence& sequence);
  int64_t attach(Slot& slot);
  int64_t copy_prompt(Slot& slot);
  const Slot* chunk_source(const Slot& slot, const PrefixRoot& root) const;
  int64_t attach_chunks(Slot& slot);
  bool move_chunks(int32_t sequence, std::span<const MovedChunk> chunks);
  int64_t next_mark(const Slot& slot) const;

  Session& session_;
  std::unique_ptr<PrefixCache> cache_;
  std::vector<Slot> slots_;
  uint64_t n_uses_ = 0;
};

}  // namespace tessera::server
