// The retained blocks of a KvCache: references that belong to no sequence. The prefix cache (engine/prefix_cache.h)
// keeps them. A block's contents stay as they are while it is retained, because sequences copy shared blocks before
// they write.
#include <fmt/format.h>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cache/paged.h"

namespace tessera {

Result<int32_t> KvCache::retain_block(int32_t sequence, int64_t logical) {
  TESSERA_TRY(require_sequence(sequence));
  const bool is_in_table = logical >= 0 && logical < div_ceil(config_.n_ctx, kKvBlockTokens);
  const uint64_t valid = is_in_table ? groups_[0].valid_bits(sequence, logical) : 0;
  const bool is_filled_from_first = valid != 0 && (valid & (valid + 1)) == 0;
  if (!is_filled_from_first)
    return fail(ErrorCode::invalid_argument, "retain: sequence {} does not store position {} and those after it",
                sequence, logical * kKvBlockTokens);
  return groups_[0].retain(sequence, logical);
}

Result<KvCache::WindowBlocks> KvCache::retain_windows(int32_t sequence) {
  TESSERA_TRY(require_sequence(sequence));
  const std::optional<int32_t> last = max_position(sequence);
  if (!last) return fail(ErrorCode::invalid_argument, "retain: sequence {} is empty", sequence);
  const int64_t end = int64_t{*last} + 1;
  for (const KvGroup& group : std::span(groups_).subspan(1)) {
    const auto [seen_begin, seen_end] = group.seen_before(end);
    for (int64_t p = seen_begin; p < seen_end; ++p)
      if (!group.holds(sequence, static_cast<int32_t>(p)))
        return fail(ErrorCode::invalid_argument, "retain: layers with {} do not hold {} {} of sequence {}",
                    group.stride() > 0 ? fmt::format("entries for {} positions each", group.stride())
                                       : fmt::format("a window of {}", group.window()),
                    group.stride() > 0 ? "entry" : "position", p, sequence);
  }
  WindowBlocks windows(groups_.size());
  for (size_t g = 1; g < groups_.size(); ++g) {
    const KvGroup::Range seen = groups_[g].seen_before(end);
    for (int64_t i = 0; i < seen.n_blocks(); ++i)
      windows[g].push_back(groups_[g].retain(sequence, seen.begin / kKvBlockTokens + i));
  }
  return windows;
}

void KvCache::release_windows(const WindowBlocks& windows) {
  for (size_t g = 0; g < windows.size(); ++g)
    for (const int32_t block : windows[g]) groups_[g].release(block);
}

Result<> KvCache::require_attachable(int32_t sequence, std::span<const int32_t> blocks, const WindowBlocks& windows,
                                     int32_t n_positions) const {
  TESSERA_TRY(require_sequence(sequence));
  if (n_positions < 1 || n_positions > config_.n_ctx)
    return fail(ErrorCode::invalid_argument, "attach: {} positions, want 1 to {}", n_positions, config_.n_ctx);
  if (max_position(sequence))
    return fail(ErrorCode::invalid_argument, "attach: sequence {} has positions already", sequence);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::span<const int32_t> of_group = g == 0               ? blocks
                                              : g < windows.size() ? std::span(windows[g])
                                                                   : std::span<const int32_t>();
    const int64_t n_blocks = groups_[g].seen_before(n_positions).n_blocks();
    if (std::ssize(of_group) != n_blocks)
      return fail(ErrorCode::internal, "attach: {} blocks of group {} for {} positions, want {}", of_group.size(), g,
                  n_positions, n_blocks);
    for (const int32_t block : of_group)
      if (!groups_[g].is_retained(block))
        return fail(ErrorCode::internal, "attach: block {} of group {} is not retained", block, g);
  }
  return {};
}

Result<> KvCache::attach(int32_t sequence, std::span<const int32_t> blocks, const WindowBlocks& windows,
                         int32_t n_positions) {
  TESSERA_TRY(require_attachable(sequence, blocks, windows, n_positions));
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto [begin, end] = groups_[g].seen_before(n_positions);
    TESSERA_TRY(groups_[g].attach(sequence, g == 0 ? blocks : std::span(windows[g]), begin, end));
  }
  return {};
}

Result<> KvCache::merge_block(int32_t sequence, int64_t logical, int32_t block) {
  TESSERA_TRY(require_sequence(sequence));
  const bool is_in_table = logical >= 0 && logical < div_ceil(config_.n_ctx, kKvBlockTokens);
  if (!is_in_table || groups_[0].valid_bits(sequence, logical) != ~uint64_t{0})
    return fail(ErrorCode::invalid_argument, "merge: sequence {} does not store positions {} to {}", sequence,
                logical * kKvBlockTokens, (logical + 1) * kKvBlockTokens - 1);
  if (!groups_[0].is_retained(block)) return fail(ErrorCode::internal, "merge: block {} is not retained", block);
  return groups_[0].merge(sequence, logical, block);
}

Result<> KvCache::cut_for_parts(int32_t sequence, int32_t n_positions) {
  TESSERA_TRY(require_sequence(sequence));
  for (size_t g = 0; g < groups_.size(); ++g)
    TESSERA_TRY(groups_[g].remove(sequence, g == 0 ? n_positions : 0, config_.n_ctx));
  return {};
}

KvGroup::Range KvCache::positions_of(const SavedPart& part) const {
  const KvGroup& group = groups_[part.group];
  if (group.stride() == 0) return {part.begin(), part.end()};
  const int64_t end = group.at(part.end());
  return {std::max<int64_t>(end - 1, 0) / kKvBlockTokens * kKvBlockTokens, end};
}

Result<std::vector<int32_t>> KvCache::store_part(int32_t sequence, const SavedPart& part) {
  const auto [begin, end] = positions_of(part);
  std::vector<BatchToken> tokens;
  for (int64_t position = begin; position < end; ++position)
    tokens.push_back({.token = 0, .position = static_cast<int32_t>(position), .sequence = sequence});
  TESSERA_TRY(require_positions(tokens));
  KvGroup& group = groups_[part.group];
  TESSERA_TRY(group.require_blocks(group.blocks_to_store(tokens)));
  TESSERA_TRY(group.mark(tokens));
  std::vector<int32_t> cells;
  TESSERA_TRY(group.assign_cells(tokens, cells));
  group.settle(tokens);
  return cells;
}

Result<> KvCache::drop_part(int32_t sequence, const SavedPart& part) {
  const auto [begin, end] = positions_of(part);
  return groups_[part.group].remove(sequence, begin, end);
}

std::vector<int64_t> KvCache::blocks_to_decode(std::span<const BatchToken> tokens) const {
  std::vector<int64_t> n_blocks;
  std::vector<BatchToken> entries;
  for (const KvGroup& group : groups_)
    n_blocks.push_back(group.blocks_to_decode(tokens_in(group, tokens, entries), config_.n_ubatch));
  return n_blocks;
}

}  // namespace tessera
