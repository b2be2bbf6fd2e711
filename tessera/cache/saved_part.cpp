// Parts of prefixes as bytes, for tiers of the prefix cache beyond this memory.
#include "tessera/cache/saved_part.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cache/sequence_memory.h"

namespace tessera {

namespace {

// The part of a group for each block with positions from `begin` on, before `end`.
void append_parts(std::vector<SavedPart>& parts, SavedPart::Kind kind, size_t group, int64_t begin, int64_t end) {
  for (int64_t position = begin; position < end;) {
    const int64_t logical = position / kKvBlockTokens, first = logical * kKvBlockTokens;
    const int64_t part_end = std::min<int64_t>(end, first + kKvBlockTokens);
    parts.push_back({.kind = kind,
                     .group = group,
                     .logical = logical,
                     .begin_row = static_cast<int32_t>(position - first),
                     .end_row = static_cast<int32_t>(part_end - first)});
    position = part_end;
  }
}

// The part of a group of entries for each block of the entries that stand for the first n positions.
void append_entries(std::vector<SavedPart>& parts, size_t group, const KvGroup& entries, int64_t n_positions) {
  const int64_t n_entries = entries.at(n_positions);
  for (int64_t begin = 0; begin < n_entries; begin += kKvBlockTokens) {
    const int64_t end = std::min<int64_t>(begin + kKvBlockTokens, n_entries) * entries.stride();
    const int64_t logical = (end - 1) / kKvBlockTokens;
    parts.push_back({.kind = SavedPart::Kind::window,
                     .group = group,
                     .logical = logical,
                     .end_row = static_cast<int32_t>(end - logical * kKvBlockTokens)});
  }
}

Result<> require_rows(const KvCache& cache, const SavedPart& part) {
  const bool is_window = part.kind == SavedPart::Kind::window;
  const bool has_group = is_window ? part.group > 0 && part.group < cache.groups().size() : part.group == 0;
  const bool has_rows = part.begin_row >= 0 && part.begin_row < part.end_row && part.end_row <= kKvBlockTokens &&
                        part.logical >= 0 && part.end() <= cache.config().n_ctx;
  const int64_t stride = has_group ? cache.groups()[part.group].stride() : 0;
  const bool ends_an_entry = stride == 0 || (part.begin_row == 0 && part.end() % stride == 0);
  if (has_group && has_rows && ends_an_entry) return {};
  return fail(ErrorCode::invalid_argument, "rows {} to {} of block {} in group {}: the cache has no such part",
              part.begin_row, part.end_row, part.logical, part.group);
}

// Calls f(layer, bytes of K, bytes of V) for the layers of a group.
template <class F>
Result<> for_layers(const KvCache& cache, const SavedPart& part, F f) {
  const auto [begin, end] = cache.positions_of(part);
  const auto n_rows = to_size(end - begin);
  for (int64_t layer = 0; layer < std::ssize(cache.config().layers); ++layer) {
    if (!cache.is_in_group(layer, part.group)) continue;
    TESSERA_ASSIGN(const KvTokenBytes token, cache.token_bytes(layer));
    const auto k = checked_mul<size_t>(token.k, n_rows), v = checked_mul<size_t>(token.v, n_rows);
    if (!k || !v) return fail(ErrorCode::limit, "the size of a block overflows");
    TESSERA_TRY(f(layer, *k, *v));
  }
  return {};
}

}  // namespace

std::vector<SavedPart> SequenceMemory::parts_of_mark(int32_t n_positions) const {
  std::vector<SavedPart> parts;
  const int64_t n_whole = n_positions / kKvBlockTokens * int64_t{kKvBlockTokens};
  append_parts(parts, SavedPart::Kind::block, 0, n_whole, n_positions);
  for (size_t g = 1; g < kv().groups().size(); ++g) {
    const KvGroup& group = kv().groups()[g];
    if (group.stride() > 0) {
      append_entries(parts, g, group, n_positions);
    } else {
      append_parts(parts, SavedPart::Kind::window, g, group.seen_before(n_positions).begin, n_positions);
    }
  }
  if (is_recurrent() && n_positions > 0) {
    const int64_t logical = (n_positions - 1) / kKvBlockTokens;
    parts.push_back({.kind = SavedPart::Kind::state,
                     .logical = logical,
                     .end_row = static_cast<int32_t>(n_positions - logical * kKvBlockTokens)});
  }
  return parts;
}

int32_t SequenceMemory::place_of(const SavedPart& part, const Mark& mark) const {
  if (part.kind == SavedPart::Kind::state) return mark.state_slot;
  if (part.group == 0 || part.group >= mark.windows.size()) return -1;
  const int64_t first = kv().groups()[part.group].seen_before(mark.n_positions).begin / kKvBlockTokens;
  const std::vector<int32_t>& blocks = mark.windows[part.group];
  const int64_t i = kv().positions_of(part).begin / kKvBlockTokens - first;
  return i >= 0 && i < std::ssize(blocks) ? blocks[to_size(i)] : -1;
}

Result<size_t> SequenceMemory::part_bytes(const SavedPart& part) const {
  TESSERA_TRY(require_retainable());
  if (part.kind == SavedPart::Kind::state) return states_->state_bytes();
  TESSERA_TRY(require_rows(kv(), part));
  size_t n_bytes = 0;
  TESSERA_TRY(for_layers(kv(), part, [&](int64_t, size_t k, size_t v) -> Result<> {
    const auto of_layer = checked_add(k, v);
    const auto sum = of_layer ? checked_add(n_bytes, *of_layer) : of_layer;
    if (!sum) return fail(ErrorCode::limit, "the size of a block overflows");
    n_bytes = *sum;
    return {};
  }));
  return n_bytes;
}

Result<std::vector<std::byte>> SequenceMemory::save_part(const SavedPart& part, int32_t place,
                                                         CellAccess& access) const {
  TESSERA_ASSIGN(const size_t n_bytes, part_bytes(part));
  std::vector<std::byte> saved(n_bytes);
  if (part.kind == SavedPart::Kind::state) {
    TESSERA_TRY(states_->save_retained(place, saved));
    return saved;
  }
  if (!kv().groups()[part.group].is_retained(place))
    return fail(ErrorCode::invalid_argument, "save: block {} is not retained", place);
  std::vector<int32_t> cells;
  const auto [begin, end] = kv().positions_of(part);
  for (int64_t p = begin; p < end; ++p)
    cells.push_back(static_cast<int32_t>(place * kKvBlockTokens + p % kKvBlockTokens));
  std::span<std::byte> rest = saved;
  TESSERA_TRY(for_layers(kv(), part, [&](int64_t layer, size_t k, size_t v) -> Result<> {
    TESSERA_TRY(access.read(kv(), layer, cells, rest.first(k), rest.subspan(k, v)));
    rest = rest.subspan(k + v);
    return {};
  }));
  return saved;
}

Result<> SequenceMemory::cut_for_parts(int32_t sequence, int32_t n_positions) {
  TESSERA_TRY(require_retainable());
  if (n_positions < 0 || n_positions % kKvBlockTokens != 0)
    return fail(ErrorCode::invalid_argument, "cut: {} positions, want a multiple of {}", n_positions, kKvBlockTokens);
  TESSERA_TRY(caches_.front()->cut_for_parts(sequence, n_positions));
  return forget_states(sequence);
}

Result<> SequenceMemory::restore_part(int32_t sequence, const SavedPart& part, std::span<const std::byte> saved,
                                      CellAccess& access) {
  TESSERA_ASSIGN(const size_t n_bytes, part_bytes(part));
  if (saved.size() != n_bytes)
    return fail(ErrorCode::invalid_argument, "restore: a part of {} bytes, want {}", saved.size(), n_bytes);
  const int64_t end = int64_t{max_position(sequence).value_or(-1)} + 1;
  const int64_t want = part.kind == SavedPart::Kind::block ? part.begin() : part.end();
  const bool may_be_before = part.kind == SavedPart::Kind::window && want < end;
  if (end != want && !may_be_before)
    return fail(ErrorCode::invalid_argument, "restore: sequence {} ends at {}, want {}", sequence, end, want);
  if (part.kind == SavedPart::Kind::state) return states_->restore(sequence, 0, static_cast<int32_t>(end - 1), saved);
  KvCache& cache = *caches_.front();
  TESSERA_ASSIGN(const std::vector<int32_t> cells, cache.store_part(sequence, part));
  auto written = for_layers(cache, part, [&](int64_t layer, size_t k, size_t v) -> Result<> {
    TESSERA_TRY(access.write(cache, layer, cells, saved.first(k), saved.subspan(k, v)));
    saved = saved.subspan(k + v);
    return {};
  });
  if (!written) TESSERA_TRY(cache.drop_part(sequence, part));
  return written;
}

}  // namespace tessera
