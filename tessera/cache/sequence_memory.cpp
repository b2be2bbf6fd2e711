#include "tessera/cache/sequence_memory.h"

#include <limits>

namespace tessera {

namespace {

void append_to(std::vector<TypeBytes>& all, const std::vector<TypeBytes>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

Result<> move_cells(const KvCache& cache, std::span<const CellMoves> moves, CellAccess& access) {
  for (size_t group = 0; group < moves.size(); ++group)
    if (!moves[group].from.empty() && cache.groups()[group].has_data())
      TESSERA_TRY(access.move(cache, group, moves[group]));
  return {};
}

}  // namespace

Result<std::unique_ptr<SequenceMemory>> SequenceMemory::plan(const Device& device, SequenceMemoryConfig config) {
  std::unique_ptr<SequenceMemory> memory(new SequenceMemory);
  const auto add_cache = [&](std::vector<KvLayerShape>& layers, std::vector<const Device*>& devices) -> Result<> {
    TESSERA_ASSIGN(auto cache, KvCache::plan(device, {.layers = std::move(layers),
                                                      .type_k = config.type_k,
                                                      .type_v = config.type_v,
                                                      .n_ctx = config.n_ctx,
                                                      .n_sequences = config.n_sequences,
                                                      .n_ubatch = config.n_ubatch,
                                                      .n_retained_tokens = config.n_retained_tokens,
                                                      .n_marks = config.n_marks,
                                                      .devices = std::move(devices)}));
    memory->caches_.push_back(std::move(cache));
    return {};
  };
  const bool has_encoder = !config.prompt_layers.empty();
  const int32_t n_states = config.recurrent_layers.empty() ? 0 : config.n_marks;
  TESSERA_TRY(add_cache(config.kv_layers, config.kv_devices));
  config.n_retained_tokens = config.n_marks = 0;  // prompts of an encoder are not retained
  if (has_encoder) TESSERA_TRY(add_cache(config.prompt_layers, config.prompt_devices));
  TESSERA_ASSIGN(memory->states_, RecurrentCache::plan(device, {.layers = std::move(config.recurrent_layers),
                                                                .n_sequences = config.n_sequences,
                                                                .n_checkpoints = config.n_checkpoints,
                                                                .n_retained = n_states,
                                                                .devices = std::move(config.recurrent_devices)}));
  return memory;
}

std::vector<TypeBytes> SequenceMemory::planned_memory() const {
  std::vector<TypeBytes> bytes;
  for (const auto& cache : caches_) append_to(bytes, cache->planned_memory());
  append_to(bytes, states_->planned_memory());
  return bytes;
}

std::vector<TypeBytes> SequenceMemory::allocated_memory() const {
  std::vector<TypeBytes> bytes;
  for (const auto& cache : caches_) append_to(bytes, cache->allocated_memory());
  append_to(bytes, states_->allocated_memory());
  return bytes;
}

Result<> SequenceMemory::allocate() {
  for (const auto& cache : caches_) TESSERA_TRY(cache->allocate());
  return states_->allocate();
}

// --- decoding

Result<> SequenceMemory::require_prompts(std::span<const BatchToken> tokens) const {
  for (const auto& cache : prompt_caches())
    for (const BatchToken& t : tokens)
      if (!cache->min_position(t.sequence))
        return fail(ErrorCode::invalid_argument, "sequence {} has no prompt that the encoder has read", t.sequence);
  return {};
}

Result<> SequenceMemory::reserve(std::span<const BatchToken> tokens, Reservation& reservation) {
  TESSERA_TRY(caches_.front()->reserve(tokens, reservation.cells));
  return states_->reserve(tokens, reservation.segments);
}

Result<> SequenceMemory::reserve_prompt(std::span<const BatchToken> tokens, Reservation& reservation) {
  reservation.segments.clear();
  return caches_.back()->reserve(tokens, reservation.cells);
}

Result<> SequenceMemory::commit() {
  for (const auto& cache : caches_) TESSERA_TRY(cache->commit());
  states_->commit();
  return {};
}

Result<> SequenceMemory::rollback() {
  states_->discard();
  for (const auto& cache : caches_) TESSERA_TRY(cache->rollback());
  return {};
}

// --- sequences. The recurrent states are more restrictive than the caches, so they are checked first.

Result<> SequenceMemory::remove(int32_t sequence, int32_t begin, int32_t end) {
  TESSERA_TRY(states_->require_removable(sequence, begin, end));
  TESSERA_TRY(caches_.front()->remove(sequence, begin, end));
  return states_->remove(sequence, begin, end);
}

Result<> SequenceMemory::remove_prompt(int32_t sequence) {
  for (const auto& cache : prompt_caches())
    TESSERA_TRY(cache->remove(sequence, 0, static_cast<int32_t>(cache->config().n_ctx)));
  return {};
}

Result<> SequenceMemory::forget_states(int32_t sequence) {
  return states_->remove(sequence, 0, std::numeric_limits<int32_t>::max());
}

Result<> SequenceMemory::keep(int32_t sequence) {
  for (const auto& cache : caches_) TESSERA_TRY(cache->keep(sequence));
  for (int32_t other = 0; other < states_->config().n_sequences; ++other)
    if (other != sequence) TESSERA_TRY(forget_states(other));
  return {};
}

Result<> SequenceMemory::clear() {
  for (const auto& cache : caches_) TESSERA_TRY(cache->clear());
  for (int32_t sequence = 0; sequence < states_->config().n_sequences; ++sequence) TESSERA_TRY(forget_states(sequence));
  return {};
}

Result<> SequenceMemory::copy(int32_t from, int32_t to, int32_t begin, int32_t end, CellAccess& access) {
  TESSERA_TRY(states_->require_copyable(from, to, begin, end));
  TESSERA_ASSIGN(const std::vector<CellMoves> moves, caches_.front()->copy(from, to, begin, end));
  TESSERA_TRY(move_cells(kv(), moves, access));
  if (from != to) {
    TESSERA_TRY(remove_prompt(to));
    // All blocks are shared, so no cell moves.
    for (const auto& cache : prompt_caches())
      TESSERA_TRY(cache->copy(from, to, 0, static_cast<int32_t>(cache->config().n_ctx)));
  }
  return states_->copy(from, to, begin, end);
}

Result<> SequenceMemory::shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta, CellAccess& access) {
  TESSERA_TRY(states_->require_shiftable(sequence, begin, end));
  TESSERA_ASSIGN(const std::vector<CellMoves> moves, caches_.front()->shift(sequence, begin, end, delta));
  TESSERA_TRY(move_cells(kv(), moves, access));
  return states_->shift(sequence, begin, end, delta);
}

// --- retained memory

Result<> SequenceMemory::require_retainable() const {
  if (!has_encoder()) return {};
  return fail(ErrorCode::unsupported, "sequences that depend on an encoder's prompt cannot be retained");
}

Result<int32_t> SequenceMemory::retain_block(int32_t sequence, int64_t logical) {
  TESSERA_TRY(require_retainable());
  return caches_.front()->retain_block(sequence, logical);
}

Result<Mark> SequenceMemory::retain_mark(int32_t sequence) {
  TESSERA_TRY(require_retainable());
  TESSERA_ASSIGN(KvCache::WindowBlocks windows, caches_.front()->retain_windows(sequence));
  const auto state_slot = states_->retain(sequence);
  if (!state_slot) {
    caches_.front()->release_windows(windows);
    return std::unexpected(state_slot.error());
  }
  return Mark{.n_positions = *max_position(sequence) + 1, .windows = std::move(windows), .state_slot = *state_slot};
}

void SequenceMemory::release_mark(const Mark& mark) {
  caches_.front()->release_windows(mark.windows);
  states_->release(mark.state_slot);
}

int64_t SequenceMemory::n_free_marks() const {
  return is_recurrent() ? states_->n_free_retained() : std::numeric_limits<int64_t>::max();
}

Result<> SequenceMemory::attach(int32_t sequence, std::span<const int32_t> blocks, int32_t n_positions,
                                const Mark& mark) {
  TESSERA_TRY(require_retainable());
  if (needs_marks() && mark.n_positions != n_positions)
    return fail(ErrorCode::internal, "attach: a mark at {}, want {}", mark.n_positions, n_positions);
  TESSERA_TRY(states_->require_attachable(sequence, mark.state_slot));
  TESSERA_TRY(caches_.front()->require_attachable(sequence, blocks, mark.windows, n_positions));
  TESSERA_TRY(caches_.front()->attach(sequence, blocks, mark.windows, n_positions));
  return states_->attach(sequence, mark.state_slot, n_positions - 1);
}

std::optional<int32_t> SequenceMemory::min_position(int32_t sequence) const {
  const auto last = states_->last_position(sequence);
  return last ? last : kv().min_position(sequence);
}

std::optional<int32_t> SequenceMemory::lowest_rollback(int32_t sequence) const {
  const auto last = states_->last_position(sequence);
  return last ? *last + 1 : kv().lowest_rollback(sequence);
}

}  // namespace tessera
