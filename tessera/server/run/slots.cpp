#include "tessera/server/run/slots.h"

#include <algorithm>
#include <utility>

#include "tessera/cache/kv_group.h"

namespace tessera::server {

namespace {

int64_t common_start(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

Slots::Slots(Session& session, int32_t n_slots) : session_(session), slots_(static_cast<size_t>(n_slots)) {
  for (int32_t i = 0; i < n_slots; ++i) slots_[static_cast<size_t>(i)].id = i;
}

size_t Slots::n_busy() const {
  return static_cast<size_t>(std::ranges::count_if(slots_, [](const Slot& slot) { return !slot.is_idle(); }));
}

Slot* Slots::assign(std::shared_ptr<Sequence> sequence) {
  Slot* slot = choose(*sequence);
  if (slot == nullptr) return nullptr;
  slot->n_computed = sequence->spec().reuses_cache ? reuse(*slot, *sequence) : 0;
  if (slot->n_computed == 0) forget(*slot);
  slot->stored.clear();
  slot->is_paused = false;
  slot->last_use = ++n_uses_;
  slot->sequence = std::move(sequence);
  return slot;
}

// The idle slot with the most tokens of the prompt, if they are most of what it holds. Otherwise the one that was not
// used for the longest time, so that the tokens of other conversations stay.
Slot* Slots::choose(const Sequence& sequence) {
  if (const int32_t wanted = sequence.spec().slot; wanted >= 0) return at(wanted).is_idle() ? &at(wanted) : nullptr;
  Slot *oldest = nullptr, *nearest = nullptr;
  int64_t most = 0;
  for (Slot& slot : slots_) {
    if (!slot.is_idle()) continue;
    if (oldest == nullptr || slot.last_use < oldest->last_use) oldest = &slot;
    const int64_t n_common = common_start(slot.stored, sequence.tokens());
    if (n_common > most && 2 * n_common > std::ssize(slot.stored)) {
      nearest = &slot;
      most = n_common;
    }
  }
  return nearest != nullptr ? nearest : oldest;
}

// At least the last token is computed again, since its logits choose the next one.
int64_t Slots::reuse(Slot& slot, const Sequence& sequence) {
  const auto reusable = sequence.tokens().first(sequence.tokens().size() - 1);
  const int64_t own = common_start(slot.held_tokens(), reusable);
  const Slot* donor = nullptr;
  int64_t most = own;
  if (sequence.spec().slot < 0)
    for (const Slot& other : slots_) {
      const int64_t n_common = common_start(other.held_tokens(), reusable);
      if (&other == &slot || n_common <= most) continue;
      donor = &other;
      most = n_common;
    }
  if (donor != nullptr)
    if (const int64_t n = copy_from(*donor, slot, most); n > 0) return n;
  return own > 0 && !slot.stored.empty() ? reuse_own(slot, own) : 0;
}

int64_t Slots::reuse_own(Slot& slot, int64_t n_common) {
  const auto n_stored = std::ssize(slot.stored);
  if (n_common == n_stored) return n_common;
  // Layers with a window or with a recurrent state have forgotten the way to an early position.
  if (session_.lowest_rollback(slot.id).value_or(0) > n_common) return 0;
  if (!session_.remove(slot.id, static_cast<int32_t>(n_common), static_cast<int32_t>(n_stored))) return 0;
  slot.stored.resize(static_cast<size_t>(n_common));
  return n_common;
}

int64_t Slots::copy_from(const Slot& donor, Slot& slot, int64_t n_common) {
  const bool is_whole = n_common == std::ssize(donor.held_tokens());
  if (session_.is_recurrent() && !is_whole) return 0;
  forget(slot);
  if (session_.copy(donor.id, slot.id, 0, static_cast<int32_t>(n_common))) return n_common;
  forget(slot);
  return 0;
}

void Slots::release(Slot& slot, bool keeps_tokens) {
  const auto held = slot.held_tokens();
  slot.stored.assign(held.begin(), held.end());
  slot.sequence.reset();
  slot.last_use = ++n_uses_;
  if (!keeps_tokens) forget(slot);
}

void Slots::forget(Slot& slot) {
  slot.stored.clear();
  slot.n_computed = 0;
  // The arguments are in range, so this does not fail.
  static_cast<void>(session_.remove(slot.id, 0, static_cast<int32_t>(session_.n_ctx())));
}

bool Slots::forget_oldest() {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_)
    if (slot.is_idle() && !slot.stored.empty() && (oldest == nullptr || slot.last_use < oldest->last_use))
      oldest = &slot;
  if (oldest != nullptr) forget(*oldest);
  return oldest != nullptr;
}

int64_t Slots::n_needed_blocks() const {
  int64_t n = 0;
  for (const Slot& slot : slots_)
    if (slot.sequence) n += (slot.sequence->n_tokens() + kKvBlockTokens) / kKvBlockTokens;
  return n;
}

}  // namespace tessera::server
