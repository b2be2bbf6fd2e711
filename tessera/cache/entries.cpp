// Operations that a KvCache refuses because of entries that stand for several positions. They depend on all positions
// before, so a sequence has no gaps.
#include <bit>

#include "tessera/cache/paged.h"
#include "tessera/cache/sequence_span.h"

namespace tessera {

std::optional<size_t> KvCache::entries_of(size_t group) const {
  const bool has_entries = group + 1 < groups_.size() && groups_[group + 1].stride() > 0;
  return has_entries ? std::optional(group + 1) : std::nullopt;
}

bool KvCache::is_in_group(int64_t layer, size_t group) const {
  return group_of(layer) == group || entries_of(group_of(layer)) == group;
}

int64_t KvCache::n_entry_blocks(size_t group) const {
  const auto entries = entries_of(group);
  return entries ? groups_[*entries].n_max_blocks() : 0;
}

// The tokens of each sequence directly follow its last one, and no entry before them is missing. One may be missing
// while parts of a sequence are restored (saved_part.h).
Result<> KvCache::require_next(std::span<const BatchToken> tokens) const {
  if (!has_entries_) return {};
  for (const SequenceSpan& span : spans_of(tokens)) {
    const auto first = min_position(span.sequence), last = max_position(span.sequence);
    const int64_t end = last ? int64_t{*last} + 1 : span.low;
    if (span.low != end || int64_t{span.high} - span.low + 1 != span.n_tokens)
      return fail(ErrorCode::invalid_argument,
                  "positions {} to {} ({} tokens) of sequence {}, want all from {} on: entries that stand for several "
                  "positions need each",
                  span.low, span.high, span.n_tokens, span.sequence, end);
    for (const KvGroup& group : groups_) {
      if (group.stride() == 0 || !first) continue;
      const int64_t begin = group.at(*first), n_wanted = group.at(end) - begin;
      int64_t n_held = 0;
      for (int64_t logical = begin / kKvBlockTokens; logical * kKvBlockTokens < group.at(end); ++logical)
        n_held += std::popcount(group.valid_bits(span.sequence, logical));
      if (n_held != n_wanted)
        return fail(ErrorCode::invalid_argument, "sequence {} has {} entries for {} positions each, want {}",
                    span.sequence, n_held, group.stride(), n_wanted);
    }
  }
  return {};
}

Result<> KvCache::require_removable(int32_t sequence, int32_t begin, int32_t end) const {
  const auto first = min_position(sequence), last = max_position(sequence);
  if (!has_entries_ || !last || begin >= end || begin > *last || end <= *first || end > *last) return {};
  return fail(ErrorCode::invalid_argument,
              "positions {} to {} of sequence {} (it ends at {}): entries that stand for several positions cannot "
              "forget a part but their end",
              begin, end - 1, sequence, *last);
}

Result<> KvCache::require_copyable(int32_t from, int32_t to, int32_t begin, int32_t end) const {
  const auto first = min_position(from), last = max_position(from);
  if (!has_entries_ || !last || begin >= end || begin > *last || end <= *first) return {};
  if (begin > *first)
    return fail(ErrorCode::invalid_argument,
                "positions {} to {} of sequence {} (it begins at {}): entries that stand for several positions are "
                "copied from the start",
                begin, end - 1, from, *first);
  if (max_position(to))
    return fail(ErrorCode::invalid_argument, "sequence {} has positions already: remove it first", to);
  return {};
}

}  // namespace tessera
