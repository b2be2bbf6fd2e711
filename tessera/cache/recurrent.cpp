#include "tessera/cache/recurrent.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cache/paged.h"
#include "tessera/graph/ops/recurrent.h"

namespace tessera {

Result<std::unique_ptr<RecurrentCache>> RecurrentCache::plan(const Device& device, RecurrentCacheConfig config) {
  if (config.n_sequences < 1 || config.n_sequences > kMaxSequences)
    return fail(ErrorCode::invalid_argument, "{} sequences, want 1 to {}", config.n_sequences, kMaxSequences);
  if (config.n_checkpoints < 0 || config.n_checkpoints > kMaxCheckpoints)
    return fail(ErrorCode::invalid_argument, "{} checkpoints, want 0 to {}", config.n_checkpoints, kMaxCheckpoints);
  if (!config.devices.empty() && config.devices.size() != config.layers.size())
    return fail(ErrorCode::internal, "{} devices for {} layers", config.devices.size(), config.layers.size());
  if (config.n_retained < 0 || config.n_retained > kMaxRetainedStates)
    return fail(ErrorCode::invalid_argument, "{} retained states, want 0 to {}", config.n_retained, kMaxRetainedStates);
  const int32_t n_state_slots = 2 * config.n_sequences + config.n_checkpoints + config.n_retained;
  std::unique_ptr<RecurrentCache> cache(new RecurrentCache(n_state_slots));
  cache->sequences_.resize(to_size(config.n_sequences));
  cache->pending_.resize(to_size(config.n_sequences));
  cache->states_.resize(config.layers.size());
  for (size_t il = 0; il < config.layers.size(); ++il) {
    const std::vector<int64_t>& n_elements = config.layers[il].n_elements;
    cache->states_[il].reserve(n_elements.size());  // no reallocation: callers keep the addresses
    for (size_t kind = 0; kind < n_elements.size(); ++kind) {
      TESSERA_ASSIGN(const Layout layout, contiguous_layout(DType::f32, {n_elements[kind], n_state_slots}));
      cache->states_[il].push_back(Tensor{{DType::f32, layout}, fmt::format("state.{}.{}", kind, il)});
      const Device& of_layer = config.devices.empty() ? device : *config.devices[il];
      cache->memory_.add(cache->states_[il].back(), of_layer.buffer_type());
      const auto sum = checked_add(cache->state_bytes_, to_size(layout.nb[1]));
      if (!sum) return fail(ErrorCode::limit, "recurrent state: size overflows");
      cache->state_bytes_ = *sum;
    }
  }
  cache->config_ = std::move(config);
  TESSERA_TRY(cache->memory_.plan());
  return cache;
}

int64_t RecurrentCache::n_segment_entries(int64_t n_tokens) const {
  return kSegmentFields * std::min<int64_t>(n_tokens, config_.n_sequences) + n_tokens;
}

Result<> RecurrentCache::require_sequence(int32_t sequence) const {
  if (sequence < 0 || sequence >= config_.n_sequences)
    return fail(ErrorCode::invalid_argument, "sequence {}, want 0 to {}", sequence, config_.n_sequences - 1);
  return {};
}

Result<> RecurrentCache::require_next_positions(std::span<const BatchToken> tokens) const {
  std::vector<std::optional<int32_t>> last(sequences_.size());
  for (const BatchToken& t : tokens) {
    TESSERA_TRY(require_sequence(t.sequence));
    std::optional<int32_t>& previous = last[to_size(t.sequence)];
    const Pending& pending = pending_[to_size(t.sequence)];
    if (!previous) previous = pending.state_slot >= 0 ? pending.last : last_position(t.sequence);
    if (previous && t.position != int64_t{*previous} + 1)
      return fail(ErrorCode::invalid_argument,
                  "position {} of sequence {} after {}: a recurrent model takes a sequence's tokens in order",
                  t.position, t.sequence, *previous);
    previous = t.position;
  }
  return {};
}

Result<> RecurrentCache::reserve(std::span<const BatchToken> tokens, std::vector<int32_t>& segments) {
  segments.clear();
  if (config_.layers.empty()) return {};
  TESSERA_TRY(require_next_positions(tokens));
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t n_entries = n_segment_entries(n_tokens);
  segments.assign(to_size(n_entries), 0);
  // Tokens are sorted by sequence; the tokens of a sequence keep their order.
  const auto order = std::span(segments).last(tokens.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const auto sequence_of = [&](int32_t i) { return tokens[to_size(i)].sequence; };
  std::ranges::stable_sort(order, {}, sequence_of);
  size_t field = 0;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    const int32_t sequence = sequence_of(order[begin]);
    for (end = begin + 1; end < order.size() && sequence_of(order[end]) == sequence;) ++end;
    Pending& pending = pending_[to_size(sequence)];
    int32_t read = pending.state_slot;
    if (read < 0) {
      read = at(sequence).state_slot;
      pending = {.state_slot = pool_.take(), .first = tokens[to_size(order[begin])].position, .last = 0};
    }
    pending.last = tokens[to_size(order[end - 1])].position;
    for (const int32_t value :
         {static_cast<int32_t>(begin), static_cast<int32_t>(end - begin), read, pending.state_slot})
      segments[field++] = value;
  }
  return {};
}

void RecurrentCache::commit() {
  for (size_t i = 0; i < pending_.size(); ++i) {
    Pending& pending = pending_[i];
    if (pending.state_slot < 0) continue;
    Sequence& sequence = sequences_[i];
    if (sequence.state_slot >= 0) {
      pool_.release(sequence.state_slot);
    } else {
      sequence.first = pending.first;
    }
    sequence.state_slot = pending.state_slot;
    sequence.last = pending.last;
    pending = {};
  }
}

void RecurrentCache::discard() {
  for (Pending& pending : pending_) {
    if (pending.state_slot >= 0) pool_.release(pending.state_slot);
    pending = {};
  }
}

// Whether the range contains none of the positions of a sequence; whether it contains all of them.
bool RecurrentCache::is_outside(const Sequence& s, int32_t begin, int32_t end) {
  return s.state_slot < 0 || begin >= end || begin > s.last || end <= s.first;
}
bool RecurrentCache::is_whole(const Sequence& s, int32_t begin, int32_t end) {
  return begin <= s.first && end > s.last;
}

void RecurrentCache::drop_checkpoints_after(Sequence& sequence, int32_t last) {
  while (!sequence.checkpoints.empty() && sequence.checkpoints.back().last > last) {
    pool_.release(sequence.checkpoints.back().state_slot);
    sequence.checkpoints.pop_back();
    --n_checkpoints_;
  }
}

void RecurrentCache::forget(Sequence& sequence) {
  if (sequence.state_slot >= 0) pool_.release(sequence.state_slot);
  sequence.state_slot = -1;
  drop_checkpoints_after(sequence, -1);
}

Result<> RecurrentCache::require_removable(int32_t sequence, int32_t begin, int32_t end) const {
  TESSERA_TRY(require_sequence(sequence));
  const Sequence& s = at(sequence);
  if (is_outside(s, begin, end) || is_whole(s, begin, end)) return {};
  if (end <= s.last)
    return fail(ErrorCode::invalid_argument,
                "positions {} to {} of sequence {} (it ends at {}): a recurrent state cannot forget a part but its end",
                begin, end - 1, sequence, s.last);
  if (std::ranges::find(s.checkpoints, begin - 1, &Checkpoint::last) == s.checkpoints.end())
    return fail(ErrorCode::invalid_argument,
                "position {} of sequence {}: a recurrent state cannot go back but to a checkpoint{}", begin, sequence,
                s.checkpoints.empty() ? " (there is none)"
                                      : fmt::format(" (the last one is at {})", s.checkpoints.back().last + 1));
  return {};
}

Result<> RecurrentCache::remove(int32_t sequence, int32_t begin, int32_t end) {
  TESSERA_TRY(require_removable(sequence, begin, end));
  Sequence& s = at(sequence);
  if (is_outside(s, begin, end)) return {};
  if (is_whole(s, begin, end)) {
    forget(s);
    return {};
  }
  drop_checkpoints_after(s, begin - 1);
  pool_.release(s.state_slot);
  s.state_slot = s.checkpoints.back().state_slot;
  s.last = s.checkpoints.back().last;
  pool_.share(s.state_slot);
  return {};
}

Result<> RecurrentCache::require_copyable(int32_t from, int32_t to, int32_t begin, int32_t end) const {
  TESSERA_TRY(require_sequence(from));
  TESSERA_TRY(require_sequence(to));
  const Sequence& s = at(from);
  if (from == to || is_outside(s, begin, end)) return {};
  if (!is_whole(s, begin, end))
    return fail(ErrorCode::invalid_argument,
                "positions {} to {} of sequence {} (it has {} to {}): a recurrent state is copied whole", begin,
                end - 1, from, s.first, s.last);
  if (at(to).state_slot >= 0)
    return fail(ErrorCode::invalid_argument, "sequence {} has a state already: remove it first", to);
  return {};
}

Result<> RecurrentCache::copy(int32_t from, int32_t to, int32_t begin, int32_t end) {
  TESSERA_TRY(require_copyable(from, to, begin, end));
  const Sequence& s = at(from);
  if (from == to || is_outside(s, begin, end)) return {};
  pool_.share(s.state_slot);
  at(to) = {.state_slot = s.state_slot, .first = s.first, .last = s.last};
  return {};
}

Result<> RecurrentCache::require_shiftable(int32_t sequence, int32_t begin, int32_t end) const {
  TESSERA_TRY(require_sequence(sequence));
  const Sequence& s = at(sequence);
  if (is_outside(s, begin, end) || is_whole(s, begin, end)) return {};
  return fail(ErrorCode::invalid_argument,
              "positions {} to {} of sequence {} (it has {} to {}): a recurrent state is shifted whole", begin, end - 1,
              sequence, s.first, s.last);
}

Result<> RecurrentCache::shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta) {
  TESSERA_TRY(require_shiftable(sequence, begin, end));
  Sequence& s = at(sequence);
  if (is_outside(s, begin, end)) return {};
  s.first += delta;
  s.last += delta;
  for (Checkpoint& checkpoint : s.checkpoints) checkpoint.last += delta;
  return {};
}

Result<> RecurrentCache::checkpoint(int32_t sequence) {
  TESSERA_TRY(require_sequence(sequence));
  if (config_.layers.empty()) return {};
  Sequence& s = at(sequence);
  if (s.state_slot < 0) return fail(ErrorCode::invalid_argument, "sequence {} has no state to keep", sequence);
  if (!s.checkpoints.empty() && s.checkpoints.back().last == s.last) return {};
  if (n_checkpoints_ == config_.n_checkpoints)
    return fail(ErrorCode::limit, "all {} checkpoints are taken", config_.n_checkpoints);
  pool_.share(s.state_slot);
  s.checkpoints.push_back({.last = s.last, .state_slot = s.state_slot});
  ++n_checkpoints_;
  return {};
}

Result<> RecurrentCache::drop_checkpoints(int32_t sequence) {
  TESSERA_TRY(require_sequence(sequence));
  drop_checkpoints_after(at(sequence), -1);
  return {};
}

std::vector<int32_t> RecurrentCache::checkpoints(int32_t sequence) const {
  std::vector<int32_t> lasts;
  if (!require_sequence(sequence)) return lasts;
  for (const Checkpoint& checkpoint : at(sequence).checkpoints) lasts.push_back(checkpoint.last);
  return lasts;
}

std::optional<int32_t> RecurrentCache::last_position(int32_t sequence) const {
  if (!require_sequence(sequence) || at(sequence).state_slot < 0) return std::nullopt;
  return at(sequence).last;
}

Result<int32_t> RecurrentCache::retain(int32_t sequence) {
  TESSERA_TRY(require_sequence(sequence));
  if (config_.layers.empty()) return -1;
  const int32_t state_slot = at(sequence).state_slot;
  if (state_slot < 0) return fail(ErrorCode::invalid_argument, "sequence {} has no state to retain", sequence);
  if (n_free_retained() == 0) return fail(ErrorCode::limit, "all {} retained states are taken", config_.n_retained);
  pool_.retain(state_slot);
  ++n_retained_;
  return state_slot;
}

void RecurrentCache::release(int32_t state_slot) {
  if (state_slot < 0) return;
  pool_.release_retained(state_slot);
  --n_retained_;
}

Result<> RecurrentCache::require_attachable(int32_t sequence, int32_t state_slot) const {
  TESSERA_TRY(require_sequence(sequence));
  if (config_.layers.empty()) return {};
  if (at(sequence).state_slot >= 0)
    return fail(ErrorCode::invalid_argument, "sequence {} has a state already: remove it first", sequence);
  if (!pool_.is_retained(state_slot)) return fail(ErrorCode::internal, "state slot {} is not retained", state_slot);
  return {};
}

Result<> RecurrentCache::attach(int32_t sequence, int32_t state_slot, int32_t last) {
  TESSERA_TRY(require_attachable(sequence, state_slot));
  if (config_.layers.empty()) return {};
  pool_.share(state_slot);
  at(sequence) = {.state_slot = state_slot, .first = 0, .last = last};
  return {};
}

Result<> RecurrentCache::read_state(int32_t state_slot, std::span<std::byte> bytes) const {
  for (const std::vector<Tensor>& layer : states_)
    for (const Tensor& tensor : layer) {
      const auto n = to_size(tensor.layout.nb[1]);
      TESSERA_TRY(tensor.buffer->get(tensor, to_size(state_slot) * n, bytes.first(n)));
      bytes = bytes.subspan(n);
    }
  return {};
}

Result<> RecurrentCache::save(int32_t sequence, std::span<std::byte> bytes) const {
  TESSERA_TRY(require_sequence(sequence));
  if (at(sequence).state_slot < 0 || bytes.size() != state_bytes_)
    return fail(ErrorCode::internal, "sequence {} has no state of {} bytes", sequence, bytes.size());
  return read_state(at(sequence).state_slot, bytes);
}

Result<> RecurrentCache::save_retained(int32_t state_slot, std::span<std::byte> bytes) const {
  if (!pool_.is_retained(state_slot) || bytes.size() != state_bytes_)
    return fail(ErrorCode::invalid_argument, "state slot {} has no retained state of {} bytes", state_slot,
                bytes.size());
  return read_state(state_slot, bytes);
}

Result<> RecurrentCache::restore(int32_t sequence, int32_t first, int32_t last, std::span<const std::byte> bytes) {
  TESSERA_TRY(require_sequence(sequence));
  if (config_.layers.empty()) return {};
  if (bytes.size() != state_bytes_)
    return fail(ErrorCode::internal, "{} bytes of state, want {}", bytes.size(), state_bytes_);
  const int32_t state_slot = pool_.take();  // a slot is free, because nothing is pending
  const auto write = [&]() -> Result<> {
    for (const std::vector<Tensor>& layer : states_)
      for (const Tensor& tensor : layer) {
        const auto n = to_size(tensor.layout.nb[1]);
        TESSERA_TRY(tensor.buffer->set(tensor, to_size(state_slot) * n, bytes.first(n)));
        bytes = bytes.subspan(n);
      }
    return {};
  };
  if (auto written = write(); !written) {
    pool_.release(state_slot);
    return written;
  }
  forget(at(sequence));
  at(sequence) = {.state_slot = state_slot, .first = first, .last = last};
  return {};
}

}  // namespace tessera
