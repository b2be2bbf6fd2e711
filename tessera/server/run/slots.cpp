#include "tessera/server/run/slots.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/cache/kv_group.h"

namespace tessera::server {

namespace {

constexpr int64_t kReservedShare = 100;  // 1/100 of the blocks is left for sequences that grow

int64_t common_start(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

// Blocks that a sequence of n tokens and one more needs.
int64_t blocks_for(int64_t n_tokens) { return (n_tokens + kKvBlockTokens) / kKvBlockTokens; }

}  // namespace

PrefixRoot root_of(const Sequence& sequence) {
  return {.salt = sequence.spec().cache_salt, .adapters = sequence.spec().adapters};
}

Slots::Slots(Session& session, int32_t n_slots) : session_(session), slots_(static_cast<size_t>(n_slots)) {
  for (int32_t i = 0; i < n_slots; ++i) slots_[static_cast<size_t>(i)].id = i;
}

Result<std::unique_ptr<Slots>> Slots::create(Session& session, int32_t n_slots) {
  std::unique_ptr<Slots> slots(new Slots(session, n_slots));
  TESSERA_ASSIGN(slots->cache_, PrefixCache::create(session));
  return slots;
}

// The arguments are in range, so this does not fail.
void Slots::forget_positions(int32_t sequence) {
  cache_->drop(sequence);
  static_cast<void>(session_.remove(sequence, 0, static_cast<int32_t>(session_.n_ctx())));
}

size_t Slots::n_busy() const {
  return static_cast<size_t>(std::ranges::count_if(slots_, [](const Slot& slot) { return !slot.is_idle(); }));
}

bool Slots::has_room(const Sequence& sequence) const {
  PrefixMatch match;
  if (sequence.shares_cache()) match = cache_->match(root_of(sequence), sequence.reusable_tokens());
  const int64_t n_needed = blocks_for(sequence.n_tokens()) - match.n_tokens / kKvBlockTokens;
  int64_t n_promised = 0;
  for (const Slot& slot : slots_)
    if (slot.sequence) n_promised += blocks_for(slot.sequence->n_tokens()) - blocks_for(slot.n_computed);
  const int64_t n_blocks = session_.cache().groups().front().n_blocks();
  return n_needed + n_promised <= cache_->n_available_blocks() - match.n_idle_blocks - n_blocks / kReservedShare;
}

Slot& Slots::assign(std::shared_ptr<Sequence> sequence) {
  Slot& slot = choose(*sequence);
  slot.sequence = std::move(sequence);
  slot.is_paused = slot.is_restoring = false;
  slot.n_told = -1;
  slot.last_use = ++n_uses_;
  static_cast<void>(session_.set_adapters(slot.id, slot.sequence->spec().adapters));  // checked by its maker
  slot.n_computed = slot.sequence->shares_cache() ? attach(slot) : 0;
  slot.n_from_memory = slot.n_computed;
  slot.last_tokens.clear();
  return slot;
}

// The one that was not used for the longest time, so that others keep their last tokens for those who ask for them.
Slot& Slots::choose(const Sequence& sequence) {
  if (sequence.spec().slot >= 0) return at(sequence.spec().slot);
  Slot* oldest = nullptr;
  for (Slot& slot : slots_)
    if (slot.is_idle() && (oldest == nullptr || slot.last_use < oldest->last_use)) oldest = &slot;
  return *oldest;
}

// The prompt of a choice whose first one is still running: the cache has only whole blocks of it. Returns 0 if that
// cannot be copied, as in recurrent models.
int64_t Slots::copy_prompt(Slot& slot) {
  const Sequence& sequence = *slot.sequence;
  if (!sequence.spec().same_prompt_as || sequence.n_generated() > 0) return 0;
  const auto first = std::ranges::find_if(slots_, [&](const Slot& other) {
    return other.sequence && other.sequence != slot.sequence && &other.sequence->task() == &sequence.task() &&
           other.sequence->index() == *sequence.spec().same_prompt_as;
  });
  const int64_t n_wanted = sequence.n_prompt() - 1;
  if (first == slots_.end() || first->is_restoring || !first->sequence->shares_cache()) return 0;
  if (first->n_computed < n_wanted || n_wanted == 0) return 0;
  if (!session_.copy(first->id, slot.id, 0, static_cast<int32_t>(n_wanted))) return 0;
  if (!cache_->begin(slot.id, root_of(sequence))) return 0;
  return n_wanted;
}

// The slot whose last tokens have the longest common start with those of a new sequence of this root. Null: there is
// none.
const Slot* Slots::chunk_source(const Slot& slot, const PrefixRoot& root) const {
  const Sequence& sequence = *slot.sequence;
  const Slot* best = nullptr;
  int64_t n_best = -1;
  for (const Slot& other : slots_) {
    const bool may_be_used = sequence.spec().slot < 0 || other.id == sequence.spec().slot;
    if (!may_be_used || other.last_tokens.empty() || other.last_root != root) continue;
    const int64_t n = common_start(other.last_tokens, sequence.tokens());
    if (n > n_best || (n == n_best && other.last_use > best->last_use)) best = &other;
    n_best = std::max(n_best, n);
  }
  return best;
}

// Moves chunks to the places after the tokens before them, and forgets all other tokens there. Shared blocks are
// copied before they change, so there must be room for the copies.
bool Slots::move_chunks(int32_t sequence, std::span<const MovedChunk> chunks) {
  const auto n_ctx = static_cast<int32_t>(session_.n_ctx());
  int32_t end = 0;
  for (const MovedChunk& chunk : chunks) {
    const auto from = static_cast<int32_t>(chunk.from), to = static_cast<int32_t>(chunk.to);
    const auto n = static_cast<int32_t>(chunk.n);
    if (!session_.remove(sequence, to, from)) return false;
    std::vector<int64_t> n_blocks;
    for (const KvGroup& group : session_.cache().groups())
      n_blocks.push_back(group.blocks_to_shift(sequence, from, from + n, to - from));
    if (!cache_->make_room(n_blocks) || !session_.shift(sequence, from, from + n, to - from)) return false;
    end = to + n;
  }
  return session_.remove(sequence, end, n_ctx).has_value();
}

// Continues from what another sequence had computed at later places, if that saves more than the common start. Returns
// the number of tokens; 0: nothing is reused so.
int64_t Slots::attach_chunks(Slot& slot) {
  Sequence& sequence = *slot.sequence;
  const SequenceSpec& spec = sequence.spec();
  if (spec.n_cache_reuse <= 0 || sequence.n_generated() > 0 || sequence.is_scoring()) return 0;
  if (session_.needs_marks() || !session_.require_shiftable()) return 0;
  const PrefixRoot of_slot = root_of(sequence);
  const Slot* source = chunk_source(slot, of_slot);
  if (source == nullptr) return 0;
  std::vector<int32_t> held = source->last_tokens;
  held.push_back(0);  // the cache never gives the last token
  const int64_t n_held = cache_->match(of_slot, held).n_tokens;
  const auto wanted = sequence.tokens().first(static_cast<size_t>(sequence.n_tokens() - 1));
  const auto tokens = std::span<const int32_t>(held).first(static_cast<size_t>(n_held));
  const auto chunks = moved_chunks(tokens, wanted, common_start(tokens, wanted), spec.n_cache_reuse);
  const int64_t n_reused = chunks.empty() ? 0 : chunks.back().to + chunks.back().n;
  if (n_reused <= cache_->match(of_slot, sequence.tokens()).n_tokens) return 0;
  const auto match = cache_->attach(slot.id, of_slot, held);
  cache_->drop(slot.id);
  if (!match || match->n_tokens != n_held || !move_chunks(slot.id, chunks)) {
    forget_positions(slot.id);
    return 0;
  }
  sequence.note_moved_chunks();
  return n_reused;
}

// attach() never gives the last token, whose logits are wanted.
int64_t Slots::attach(Slot& slot) {
  if (const int64_t n_copied = copy_prompt(slot); n_copied > 0) return n_copied;
  if (const int64_t n_reused = attach_chunks(slot); n_reused > 0) return n_reused;
  auto tokens = slot.sequence->reusable_tokens();
  if (slot.sequence->spec().slot >= 0 && slot.sequence->n_generated() == 0) {
    const int64_t n_own = common_start(slot.last_tokens, tokens);
    tokens = tokens.first(std::min(tokens.size(), static_cast<size_t>(n_own) + 1));
  }
  const auto match = cache_->attach(slot.id, root_of(*slot.sequence), tokens);
  return match ? match->n_tokens : 0;
}

// The end of the prompt without its last token, which is always computed again, and places between.
int64_t Slots::next_mark(const Slot& slot) const {
  if (!session_.needs_marks()) return std::numeric_limits<int64_t>::max();
  const int64_t prompt_mark = slot.sequence->n_prompt() - 1;
  const int64_t spaced = (slot.n_computed / kMarkSpacing + 1) * kMarkSpacing;
  return prompt_mark > slot.n_computed ? std::min(prompt_mark, spaced) : spaced;
}

int64_t Slots::tokens_to_mark(const Slot& slot) const { return next_mark(slot) - slot.n_computed; }

// Without room for marks and blocks the cache keeps less, which is no error.
void Slots::note_computed(Slot& slot, int64_t n_tokens) {
  const bool is_at_mark = slot.n_computed + n_tokens == next_mark(slot);
  const bool fills_block = (slot.n_computed + n_tokens) / kKvBlockTokens > slot.n_computed / kKvBlockTokens;
  slot.n_computed += n_tokens;
  if (!slot.sequence->shares_cache() || !(is_at_mark || fills_block)) return;
  const auto tokens = slot.sequence->tokens().first(static_cast<size_t>(slot.n_computed));
  static_cast<void>(cache_->insert(slot.id, tokens, is_at_mark ? PrefixCache::Tail::mark : PrefixCache::Tail::open));
}

int64_t Slots::most_guesses(const Slot& slot) const {
  if (session_.is_recurrent() && slot.n_pending() > kMostRepeated) return 0;
  return std::min(tokens_to_mark(slot) - slot.n_pending() - 1, kRollbackTokens - 1);
}

// A recurrent state goes back to the checkpoint before the step, unless all guesses were right. The next step computes
// the right ones again. The arguments are in range, so nothing fails.
void Slots::settle_guesses(Slot& slot) {
  if (slot.guesses.empty()) return;
  const auto n_guesses = std::ssize(slot.guesses);
  const bool goes_back = session_.is_recurrent() && slot.n_right < slot.guesses.size();
  const int64_t n_kept = goes_back ? 0 : slot.n_held + static_cast<int64_t>(slot.n_right);
  const int64_t begin = slot.n_computed + n_kept, end = slot.n_computed + slot.n_held + n_guesses;
  static_cast<void>(session_.remove(slot.id, static_cast<int32_t>(begin), static_cast<int32_t>(end)));
  drop_guesses(slot);
  if (n_kept > 0) note_computed(slot, n_kept);
}

void Slots::drop_guesses(Slot& slot) {
  static_cast<void>(session_.drop_checkpoints(slot.id));
  slot.guesses.clear();
  slot.n_right = 0;
  slot.n_held = 0;
}

// Shared blocks are copied before they change, so there must be room for the copies.
bool Slots::shift(Slot& slot) {
  Sequence& sequence = *slot.sequence;
  const auto [begin, end] = sequence.forgettable(slot.n_computed);
  const auto from = static_cast<int32_t>(end), to = static_cast<int32_t>(slot.n_computed);
  const auto n_forgotten = static_cast<int32_t>(end - begin);
  cache_->drop(slot.id);
  sequence.forget(begin, end);
  slot.n_told = -1;
  slot.n_computed -= n_forgotten;
  if (session_.is_recurrent() || !session_.require_shiftable()) return false;
  if (!session_.remove(slot.id, static_cast<int32_t>(begin), from)) return false;
  if (from == to) return true;
  std::vector<int64_t> n_blocks;
  for (const KvGroup& group : session_.cache().groups())
    n_blocks.push_back(group.blocks_to_shift(slot.id, from, to, -n_forgotten));
  return cache_->make_room(n_blocks) && session_.shift(slot.id, from, to, -n_forgotten);
}

PastSequence past_of(const Slot& slot) {
  const Sequence& sequence = *slot.sequence;
  const TaskSpec& task = sequence.task().spec();
  return {.task = sequence.task().id(),
          .n_prompt = sequence.n_prompt(),
          .n_prompt_computed = std::min(slot.n_computed, sequence.n_prompt()),
          .n_cached = sequence.n_cached(),
          .has_new_line = sequence.has_new_line(),
          .client = task.client,
          .priority = task.priority,
          .fields = task.fields};
}

void Slots::release(Slot& slot) {
  const auto tokens = slot.sequence->tokens().first(static_cast<size_t>(slot.n_computed));
  if (slot.sequence->shares_cache()) {
    static_cast<void>(cache_->insert(slot.id, tokens, PrefixCache::Tail::end));
    slot.last_tokens.assign(tokens.begin(), tokens.end());
    slot.last_root = root_of(*slot.sequence);
  }
  forget_positions(slot.id);
  slot.past = past_of(slot);
  slot.sequence.reset();
  slot.n_computed = 0;
  slot.is_paused = slot.is_restoring = false;
  slot.last_use = ++n_uses_;
}

// --- parts of the disk tier

bool Slots::begin_restore(Slot& slot, int64_t n_tokens) {
  if (n_tokens == slot.n_computed && !session_.needs_marks()) return true;
  if (!session_.cut_for_parts(slot.id, static_cast<int32_t>(n_tokens))) return false;
  slot.n_computed = n_tokens;
  return true;
}

// Only whole blocks enter the cache: the sequence has no mark before end_restore().
bool Slots::restore_part(Slot& slot, const SavedPart& part, std::span<const std::byte> saved) {
  std::vector<int64_t> n_blocks(part.group + 1, 0);
  if (part.kind != SavedPart::Kind::state) n_blocks[part.group] = 1;
  if (!cache_->make_room(n_blocks) || !session_.restore_part(slot.id, part, saved)) return false;
  if (part.kind != SavedPart::Kind::block) return true;
  slot.n_computed = part.end();
  const auto tokens = slot.sequence->tokens().first(static_cast<size_t>(slot.n_computed));
  if (part.end_row == kKvBlockTokens) static_cast<void>(cache_->insert(slot.id, tokens));
  return true;
}

void Slots::end_restore(Slot& slot) {
  const auto tokens = slot.sequence->tokens().first(static_cast<size_t>(slot.n_computed));
  static_cast<void>(cache_->insert(slot.id, tokens, PrefixCache::Tail::mark));
}

void Slots::attach_again(Slot& slot) {
  forget_positions(slot.id);
  slot.n_computed = slot.n_from_memory = attach(slot);
}

// --- saved slots

// The sequence is gone since the slot was released, so it comes back from the cache for a moment. attach() leaves out
// the last token, hence one more.
Result<Slots::State> Slots::save(const Slot& slot) {
  State state{.tokens = slot.last_tokens};
  state.tokens.push_back(0);
  TESSERA_TRY(session_.set_adapters(slot.id, slot.last_root.adapters));
  TESSERA_ASSIGN(const PrefixMatch match, cache_->attach(slot.id, slot.last_root, state.tokens));
  state.tokens.resize(static_cast<size_t>(match.n_tokens));
  auto bytes = session_.save_state(slot.id);
  forget_positions(slot.id);
  if (!bytes) return forward_error(bytes);
  state.bytes = std::move(*bytes);
  return state;
}

// A file that cannot be used evicts nothing: only one that fits into the emptied cache makes room.
Result<> Slots::restore_state(int32_t sequence, const State& state) {
  auto restored = session_.restore_state(sequence, state.bytes);
  if (restored || restored.error().code() != ErrorCode::limit) return restored;
  const int64_t n_most = blocks_for(std::ssize(state.tokens));
  std::vector<int64_t> n_blocks;
  for (const KvGroup& group : session_.cache().groups())
    n_blocks.push_back(group.window() == 0 ? blocks_for(group.at(std::ssize(state.tokens)))
                                           : std::min(n_most, group.window() / kKvBlockTokens + 2));
  TESSERA_TRY(cache_->make_room(n_blocks));
  return session_.restore_state(sequence, state.bytes);
}

Result<> Slots::restore(Slot& slot, const State& state, const PrefixRoot& root) {
  TESSERA_TRY(session_.set_adapters(slot.id, root.adapters));
  TESSERA_TRY(restore_state(slot.id, state));
  const auto held = session_.cache().cells(slot.id);
  const bool is_whole = held && std::ssize(held->positions) == std::ssize(state.tokens) &&
                        (held->positions.empty() || held->positions.back() + 1 == std::ssize(held->positions));
  if (is_whole) {
    static_cast<void>(cache_->begin(slot.id, root));
    static_cast<void>(cache_->insert(slot.id, state.tokens, PrefixCache::Tail::end));
  }
  forget_positions(slot.id);
  if (!is_whole) return fail(ErrorCode::format, "state: not of the {} tokens beside it", state.tokens.size());
  slot.last_tokens = state.tokens;
  slot.last_root = root;
  return {};
}

void Slots::clear() {
  cache_->clear();
  for (Slot& slot : slots_)
    if (slot.is_idle()) slot.last_tokens.clear();
}

}  // namespace tessera::server
