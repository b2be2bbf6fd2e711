// The slots of a session: sequences of its cache that can be in a batch. A slot that becomes idle keeps its tokens, so
// that a later prompt with the same start need not compute them again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/engine/session.h"
#include "tessera/server/run/sequence.h"

namespace tessera::server {

struct Slot {
  int32_t id = 0;                        // the sequence id in the session
  std::shared_ptr<Sequence> sequence{};  // null: idle
  int64_t n_computed = 0;                // tokens of the sequence, or of `stored`, that the cache holds
  std::vector<int32_t> stored{};         // of an idle slot
  uint64_t last_use = 0;                 // greater is later
  bool is_paused = false;                // the client reads too slowly
  int priority = 0;                      // of the sequence, with its age when it got the slot
  uint64_t arrival = 0;                  // of the sequence in the queue

  bool is_idle() const { return sequence == nullptr; }
  /// The tokens that the cache holds.
  std::span<const int32_t> held_tokens() const {
    return sequence ? sequence->tokens().first(static_cast<size_t>(n_computed)) : std::span(stored);
  }
  /// Tokens that wait to be computed. A sequence that generates has few, mostly one.
  int64_t n_pending() const { return sequence ? sequence->n_tokens() - n_computed : 0; }
  bool is_decoding() const { return sequence && sequence->n_generated() > 0 && n_pending() <= kMostForced; }

  static constexpr int64_t kMostForced = 64;  // tokens that a grammar adds at once; more are computed like a prompt
};

class Slots {
 public:
  /// The session must outlive this, and its sequences must be empty.
  Slots(Session& session, int32_t n_slots);

  std::span<Slot> all() { return slots_; }
  std::span<const Slot> all() const { return slots_; }
  Slot& at(int32_t id) { return slots_[static_cast<size_t>(id)]; }
  size_t n_busy() const;

  /// Gives a sequence an idle slot and as many tokens of the cache as can be reused: those of this slot if the sequence
  /// asks for one, otherwise those of any slot. Null: no slot is idle.
  Slot* assign(std::shared_ptr<Sequence> sequence);
  bool has_idle() const { return n_busy() < slots_.size(); }

  /// Takes the slot from its sequence. keeps_tokens: they stay for later prompts.
  void release(Slot& slot, bool keeps_tokens);
  /// Forgets the tokens of an idle slot.
  void forget(Slot& slot);
  /// Forgets the tokens of the idle slot that was not used for the longest time. False: no idle slot has tokens.
  bool forget_oldest();

  /// Blocks of the cache that the running sequences need for their present tokens.
  int64_t n_needed_blocks() const;

 private:
  Slot* choose(const Sequence& sequence);
  int64_t reuse(Slot& slot, const Sequence& sequence);
  int64_t reuse_own(Slot& slot, int64_t n_common);
  int64_t copy_from(const Slot& donor, Slot& slot, int64_t n_common);

  Session& session_;
  std::vector<Slot> slots_;
  uint64_t n_uses_ = 0;
};

}  // namespace tessera::server
