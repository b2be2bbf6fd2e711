#include "tessera/cache/paged.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cache/sequence_span.h"

namespace tessera {

namespace {

// One cell per entry becomes one per token: -1 if it completes no entry.
void spread_cells(std::span<const BatchToken> tokens, int64_t stride, std::vector<int32_t>& cells) {
  size_t next = cells.size();
  cells.resize(tokens.size(), -1);
  for (size_t i = tokens.size(); i-- > 0;) {
    const bool completes = tokens[i].position % stride == stride - 1;
    cells[i] = completes ? cells[--next] : -1;
  }
}

std::vector<BatchToken> tokens_at(int32_t sequence, std::span<const int32_t> positions) {
  std::vector<BatchToken> tokens;
  for (const int32_t p : positions) tokens.push_back({.position = p, .sequence = sequence});
  return tokens;
}

// The most blocks that n adjacent positions can touch.
int64_t blocks_spanned(int64_t n) { return div_ceil(n, kKvBlockTokens) + 1; }

// A group without a window has room for n_ctx tokens. Every sequence may leave its last block partly empty, so n_ctx
// tokens always fit with one more block for each further sequence. In a group with a window, a sequence holds at most
// the positions to which its next tokens and a rollback attend. While a batch is decoded, it also holds as many
// positions of the batch, because the old positions stay until the batch has succeeded. Retained blocks come on top, in
// a group with a window those of all marks.
int64_t n_blocks_of(const KvCacheConfig& config, int64_t window) {
  const int64_t all = div_ceil(config.n_ctx, kKvBlockTokens) + config.n_sequences - 1 +
                      div_ceil(config.n_retained_tokens, kKvBlockTokens);
  if (window == 0) return all;
  const int64_t seen = std::min(window, config.n_ctx) - 1, held = seen + kRollbackTokens;
  return std::min(all, config.n_sequences * (blocks_spanned(held) + blocks_spanned(held + config.n_ubatch)) +
                           config.n_marks * blocks_spanned(seen));
}

// The entries of a sequence fill at most 1 of `stride` blocks that its positions fill in group 0, rounded up. A mark
// may keep the last block of entries, which a sequence then copies before it adds one.
int64_t n_entry_blocks_of(const KvCacheConfig& config, int64_t stride) {
  return div_ceil(n_blocks_of(config, 0), stride) + config.n_sequences - 1 + config.n_marks;
}

Result<> require_layer(const KvLayerShape& layer) {
  if (layer.window < 0) return fail(ErrorCode::invalid_argument, "attention window {}, want at least 0", layer.window);
  if (layer.stride < 0)
    return fail(ErrorCode::invalid_argument, "entries for {} tokens each, want at least 0", layer.stride);
  if (layer.stride > 0 && layer.window == 0)
    return fail(ErrorCode::invalid_argument, "a layer with entries for {} tokens each has no window", layer.stride);
  return {};
}

Result<> require_side(const Device& device, DType dtype, KvSide side, int64_t dim) {
  if (device.supports_kv(dtype, side, dim)) return {};
  const int64_t block = info(dtype).block_elements;
  // If the device supports another size of this type, only the size is wrong.
  const bool is_size = dim % block != 0 && device.supports_kv(dtype, side, block);
  const std::string reason = is_size ? fmt::format(": want a multiple of {}", block) : "";
  return fail(ErrorCode::invalid_argument, "{} cannot keep {} of {} elements per head as {}{}", device.name(),
              side == KvSide::k ? "K" : "V", dim, info(dtype).name, reason);
}

}  // namespace

Result<std::unique_ptr<KvCache>> KvCache::plan(const Device& device, KvCacheConfig config) {
  if (config.n_ctx < 1 || config.n_ctx > kMaxContext)
    return fail(ErrorCode::invalid_argument, "context size {}, want 1 to {}", config.n_ctx, kMaxContext);
  if (config.n_sequences < 1 || config.n_sequences > kMaxSequences)
    return fail(ErrorCode::invalid_argument, "{} sequences, want 1 to {}", config.n_sequences, kMaxSequences);
  if (config.n_retained_tokens < 0 || config.n_retained_tokens > kMaxRetainedTokens)
    return fail(ErrorCode::invalid_argument, "{} tokens of retained blocks, want 0 to {}", config.n_retained_tokens,
                kMaxRetainedTokens);
  if (config.n_marks < 0 || config.n_marks > kMaxMarks)
    return fail(ErrorCode::invalid_argument, "{} marks, want 0 to {}", config.n_marks, kMaxMarks);
  if (!config.devices.empty() && config.devices.size() != config.layers.size())
    return fail(ErrorCode::internal, "{} devices for {} layers", config.devices.size(), config.layers.size());
  std::unique_ptr<KvCache> cache(new KvCache);
  cache->config_ = std::move(config);
  TESSERA_TRY(cache->add_groups());
  TESSERA_TRY(cache->add_layers(device));
  TESSERA_TRY(cache->add_tables(device));
  TESSERA_TRY(cache->memory_.plan());
  return cache;
}

Result<> KvCache::add_groups() {
  std::map<std::pair<int64_t, int64_t>, size_t> known;  // window and stride > group
  const auto find_or_add = [&](int64_t window, int64_t stride) -> Result<size_t> {
    const auto [at, is_new] = known.try_emplace({window, stride}, groups_.size());
    if (is_new) TESSERA_TRY(add_group(window, stride));
    return at->second;
  };
  TESSERA_TRY(find_or_add(0, 0));
  for (const KvLayerShape& layer : config_.layers) {
    TESSERA_TRY(require_layer(layer));
    TESSERA_ASSIGN(const size_t group, find_or_add(layer.window, layer.stride));
    group_of_layer_.push_back(group);
  }
  return {};
}

// Adds a group of positions, and with a stride one of entries after it.
Result<> KvCache::add_group(int64_t window, int64_t stride) {
  const std::string suffix = groups_.empty() ? "" : fmt::format(".{}", groups_.size());
  KvTables& tables = *tables_.emplace_back(std::make_unique<KvTables>());
  tables.blocks.name = "cache.blocks" + suffix;
  tables.blocks.dtype = DType::i32;
  tables.valid.name = "cache.valid" + suffix;
  tables.valid.dtype = DType::i64;
  const KvGroup::Size entries{
      .n_blocks = stride == 0 ? 0 : n_entry_blocks_of(config_, stride),
      .n_max_blocks = stride == 0 ? 0 : div_ceil(std::max<int64_t>(config_.n_ctx / stride, 1), int64_t{kKvBlockTokens}),
      .n_sequences = config_.n_sequences,
      .first_block = static_cast<int32_t>(n_blocks_of(config_, window))};
  const KvGroup::Size positions{.n_blocks = n_blocks_of(config_, window),
                                .n_max_blocks = div_ceil(config_.n_ctx, kKvBlockTokens),
                                .n_sequences = config_.n_sequences,
                                .first_column = entries.n_max_blocks};
  const int64_t n_cells = (positions.n_blocks + entries.n_blocks) * kKvBlockTokens;
  if (n_cells > INT32_MAX) return fail(ErrorCode::limit, "a KV cache of {} cells, want at most {}", n_cells, INT32_MAX);
  groups_.emplace_back(window, 0, positions, tables);
  if (stride > 0) groups_.emplace_back(0, stride, entries, tables);
  has_entries_ = has_entries_ || stride > 0;
  for (Tensor* table : {&tables.blocks, &tables.valid}) {
    TESSERA_ASSIGN(table->layout, contiguous_layout(table->dtype, {entries.n_max_blocks + positions.n_max_blocks,
                                                                   config_.n_sequences}));
  }
  return {};
}

Result<KvTokenBytes> KvCache::token_bytes(int64_t layer) const {
  const KvLayerShape& shape = config_.layers[to_size(layer)];
  TESSERA_ASSIGN(const size_t k, row_bytes(shape.type.value_or(config_.type_k), shape.k_dim));
  TESSERA_ASSIGN(const size_t v, row_bytes(shape.type.value_or(config_.type_v), shape.v_dim));
  const auto n_heads = to_size(shape.n_heads_kv);
  return KvTokenBytes{k * n_heads, v * n_heads};
}

const Device& KvCache::device_of(size_t layer, const Device& otherwise) const {
  return config_.devices.empty() ? otherwise : *config_.devices[layer];
}

Result<> KvCache::add_layers(const Device& device) {
  k_.resize(config_.layers.size());
  v_.resize(config_.layers.size());
  for (size_t il = 0; il < config_.layers.size(); ++il) {
    const KvLayerShape& shape = config_.layers[il];
    const Device& of_layer = device_of(il, device);
    const size_t of_positions = group_of_layer_[il];
    const std::optional<size_t> of_entries = entries_of(of_positions);
    const int64_t n_blocks = groups_[of_positions].n_blocks() + (of_entries ? groups_[*of_entries].n_blocks() : 0);
    for (const KvSide side : {KvSide::k, KvSide::v}) {
      const bool is_k = side == KvSide::k;
      const int64_t dim = is_k ? shape.k_dim : shape.v_dim;
      if (!is_k && dim == 0) continue;
      Tensor& tensor = (is_k ? k_ : v_)[il];
      tensor.name = fmt::format("cache.{}.{}", is_k ? "k" : "v", il);
      tensor.dtype = shape.type.value_or(is_k ? config_.type_k : config_.type_v);
      tensor.layer = static_cast<int>(il);
      TESSERA_TRY(require_side(of_layer, tensor.dtype, side, dim));
      TESSERA_ASSIGN(tensor.layout, contiguous_layout(tensor.dtype, {dim, kKvBlockTokens, shape.n_heads_kv, n_blocks}));
      groups_[of_positions].add_data(tensor);
      if (of_entries) groups_[*of_entries].add_data(tensor);
      memory_.add(tensor, of_layer.buffer_type());
    }
  }
  return {};
}

Result<> KvCache::add_tables(const Device& device) {
  for (const auto& tables : tables_) {
    const Device* of_group = nullptr;
    for (size_t il = 0; il < config_.layers.size(); ++il) {
      if (&groups_[group_of_layer_[il]].blocks() != &tables->blocks) continue;
      const Device& of_layer = device_of(il, device);
      of_group = of_group == nullptr || of_group == &of_layer ? &of_layer : &device;
      if (of_group != &of_layer) break;
    }
    if (of_group == nullptr) of_group = &device;
    for (Tensor* table : {&tables->blocks, &tables->valid}) memory_.add(*table, of_group->buffer_type());
  }
  return {};
}

Result<> KvCache::allocate() {
  TESSERA_TRY(memory_.allocate(BufferUsage::cache));
  for (KvGroup& group : groups_) group.reset();
  for (const auto& tables : tables_) {
    const std::vector<int32_t> none(to_size(tables->blocks.shape().n_elements()), -1);
    TESSERA_TRY(tables->blocks.buffer->set(tables->blocks, 0, std::as_bytes(std::span(none))));
  }
  return {};
}

// --- checks

Result<> KvCache::require_sequence(int32_t sequence) const {
  if (sequence < 0 || sequence >= config_.n_sequences)
    return fail(ErrorCode::invalid_argument, "sequence {}, want 0 to {}", sequence, config_.n_sequences - 1);
  return {};
}

Result<> KvCache::require_positions(std::span<const BatchToken> tokens) const {
  for (const BatchToken& t : tokens) {
    TESSERA_TRY(require_sequence(t.sequence));
    if (t.position < 0 || t.position >= config_.n_ctx)
      return fail(ErrorCode::invalid_argument, "position {} of sequence {}, want 0 to {} (the context size less 1)",
                  t.position, t.sequence, config_.n_ctx - 1);
  }
  return {};
}

Error KvCache::forgotten(const std::string& what, int64_t position, int32_t sequence, const KvGroup& group) const {
  return Error(ErrorCode::invalid_argument,
               fmt::format("{}position {} of sequence {} would see positions that layers with a window of {} no longer "
                           "hold; the lowest it can go back to is {}",
                           what, position, sequence, group.window(), *lowest_rollback(sequence)));
}

bool KvCache::sees_forgotten(const KvGroup& group, int32_t sequence, int64_t position) const {
  const int64_t begin = std::max<int64_t>(position - group.window() + 1, 0);
  for (int64_t logical = begin / kKvBlockTokens; logical * kKvBlockTokens < position; ++logical) {
    const uint64_t lost = groups_[0].valid_bits(sequence, logical) & ~group.valid_bits(sequence, logical);
    if ((lost & range_bits(logical, begin, position)) != 0) return true;
  }
  return false;
}

// A token that directly follows another attends to no older position than that token does.
Result<> KvCache::require_visible(std::span<const BatchToken> tokens) const {
  for (const KvGroup& group : groups_)
    for (size_t i = 0; group.window() > 0 && i < tokens.size(); ++i) {
      const BatchToken& t = tokens[i];
      const bool follows = i > 0 && tokens[i - 1].sequence == t.sequence && tokens[i - 1].position + 1 == t.position;
      if (!follows && sees_forgotten(group, t.sequence, t.position))
        return std::unexpected(forgotten("", t.position, t.sequence, group));
    }
  return {};
}

// images: the valid bits of each group after an operation on `sequence`.
Result<> KvCache::require_visible_after(const char* operation, int32_t sequence,
                                        std::span<const std::vector<uint64_t>> images) const {
  const std::vector<uint64_t>& stored = images[0];
  int64_t end = 0;  // the next position of the sequence
  for (size_t i = stored.size(); i-- > 0 && end == 0;)
    if (stored[i] != 0) end = static_cast<int64_t>(i) * kKvBlockTokens + kKvBlockTokens - std::countl_zero(stored[i]);
  for (size_t g = 1; g < groups_.size(); ++g) {
    if (groups_[g].window() == 0) continue;
    const int64_t begin = std::max<int64_t>(end - groups_[g].window() + 1, 0);
    for (int64_t logical = begin / kKvBlockTokens; logical * kKvBlockTokens < end; ++logical) {
      const auto i = to_size(logical);
      if ((stored[i] & ~images[g][i] & range_bits(logical, begin, end)) != 0)
        return std::unexpected(forgotten(fmt::format("{}: ", operation), end, sequence, groups_[g]));
    }
  }
  return {};
}

// --- decoding

Result<> KvCache::reserve(std::span<const BatchToken> tokens, std::vector<std::vector<int32_t>>& cells) {
  cells.resize(groups_.size());
  for (std::vector<int32_t>& of_group : cells) of_group.clear();
  TESSERA_TRY(require_positions(tokens));
  TESSERA_TRY(require_next(tokens));
  TESSERA_TRY(require_visible(tokens));
  // Positions that this batch has stored and no longer needs are dropped at once, so that a batch of any size needs at
  // most two windows. Older positions stay for rollback().
  if (groups_.size() > 1)
    for (const SequenceSpan& span : spans_of(tokens))
      for (KvGroup& group : groups_)
        if (group.window() > 0)
          TESSERA_TRY(group.forget_before(span.sequence, span.low - kRollbackTokens - group.window() + 1,
                                          KvGroup::Which::fresh));
  std::vector<BatchToken> entries;
  for (const KvGroup& group : groups_)
    TESSERA_TRY(group.require_blocks(group.blocks_to_store(tokens_in(group, tokens, entries))));
  for (KvGroup& group : groups_) TESSERA_TRY(group.mark(tokens_in(group, tokens, entries)));
  pending_.insert(pending_.end(), tokens.begin(), tokens.end());
  for (size_t g = 0; g < groups_.size(); ++g) {
    TESSERA_TRY(groups_[g].assign_cells(tokens_in(groups_[g], tokens, entries), cells[g]));
    if (groups_[g].stride() > 0) spread_cells(tokens, groups_[g].stride(), cells[g]);
  }
  return {};
}

Result<> KvCache::commit() {
  std::vector<BatchToken> entries;
  for (KvGroup& group : groups_) group.settle(tokens_in(group, pending_, entries));
  const std::vector<BatchToken> done = std::exchange(pending_, {});
  if (groups_.size() == 1) return {};
  for (const SequenceSpan& span : spans_of(done))
    for (KvGroup& group : groups_)
      if (group.window() > 0)
        TESSERA_TRY(group.forget_before(span.sequence, span.high + 1 - kRollbackTokens - group.window() + 1,
                                        KvGroup::Which::all));
  return {};
}

Result<> KvCache::rollback() {
  for (const BatchToken& t : std::exchange(pending_, {}))
    for (KvGroup& group : groups_)
      TESSERA_TRY(group.remove(t.sequence, group.at(t.position), group.at(int64_t{t.position} + 1)));
  return {};
}

// --- sequences

Result<> KvCache::remove(int32_t sequence, int32_t begin, int32_t end) {
  TESSERA_TRY(require_sequence(sequence));
  TESSERA_TRY(require_removable(sequence, begin, end));
  const auto low = min_position(sequence), high = max_position(sequence);
  const bool is_tail = low && *low < begin && begin <= *high && *high < end;
  for (const KvGroup& group : groups_)
    if (is_tail && group.window() > 0 && sees_forgotten(group, sequence, begin))
      return std::unexpected(forgotten("remove: ", begin, sequence, group));
  for (KvGroup& group : groups_) TESSERA_TRY(group.remove(sequence, group.at(begin), group.at(end)));
  return {};
}

Result<> KvCache::keep(int32_t sequence) {
  TESSERA_TRY(require_sequence(sequence));
  for (int32_t other = 0; other < config_.n_sequences; ++other)
    if (other != sequence) TESSERA_TRY(remove(other, 0, static_cast<int32_t>(config_.n_ctx)));
  return {};
}

Result<> KvCache::clear() {
  for (int32_t sequence = 0; sequence < config_.n_sequences; ++sequence)
    TESSERA_TRY(remove(sequence, 0, static_cast<int32_t>(config_.n_ctx)));
  return {};
}

Result<std::vector<CellMoves>> KvCache::copy(int32_t from, int32_t to, int32_t begin, int32_t end) {
  TESSERA_TRY(require_sequence(from));
  TESSERA_TRY(require_sequence(to));
  std::vector<CellMoves> moves(groups_.size());
  if (from == to) return moves;
  TESSERA_TRY(require_copyable(from, to, begin, end));
  std::vector<std::vector<uint64_t>> images;  // of `to`, afterwards
  for (const KvGroup& group : groups_) {
    images.push_back(group.image(to));
    const std::vector<uint64_t> source = group.image(from);
    for (size_t i = 0; i < source.size(); ++i) {
      const auto logical = static_cast<int64_t>(i);
      const uint64_t wanted = source[i] & range_bits(logical, group.at(begin), group.at(end));
      if ((wanted & images.back()[i]) != 0)
        return fail(ErrorCode::invalid_argument, "position {} of sequence {} is stored already: remove it first",
                    logical * kKvBlockTokens + std::countr_zero(wanted & images.back()[i]), to);
      images.back()[i] |= wanted;
    }
    TESSERA_TRY(group.require_blocks(group.blocks_to_copy(from, to, group.at(begin), group.at(end))));
  }
  TESSERA_TRY(require_visible_after("copy", from, images));
  for (size_t g = 0; g < groups_.size(); ++g) {
    TESSERA_ASSIGN(moves[g], groups_[g].copy(from, to, groups_[g].at(begin), groups_[g].at(end)));
  }
  return moves;
}

Result<std::vector<CellMoves>> KvCache::shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta) {
  TESSERA_ASSIGN(const Cells all, cells(sequence));
  std::vector<CellMoves> moves(groups_.size());
  if (delta == 0) return moves;
  if (has_entries_)
    return fail(ErrorCode::invalid_argument,
                "shift of sequence {} by {}: entries that stand for several positions cannot be shifted", sequence,
                delta);
  for (const int32_t p : all.positions) {
    if (p < begin || p >= end) continue;
    const int64_t target = int64_t{p} + delta;
    if (target < 0 || target >= config_.n_ctx)
      return fail(ErrorCode::invalid_argument, "shift by {}: position {} of sequence {} would leave 0 to {}", delta, p,
                  sequence, config_.n_ctx - 1);
    const bool target_moves = target >= begin && target < end;
    if (!target_moves && groups_[0].holds(sequence, static_cast<int32_t>(target)))
      return fail(ErrorCode::invalid_argument, "shift by {}: position {} of sequence {} would meet position {}", delta,
                  p, sequence, target);
  }
  std::vector<std::vector<uint64_t>> images;
  for (const KvGroup& group : groups_) {
    images.push_back(group.image_shifted(sequence, begin, end, delta));
    TESSERA_TRY(group.require_blocks(group.blocks_to_shift(sequence, begin, end, delta)));
  }
  TESSERA_TRY(require_visible_after("shift", sequence, images));
  for (size_t g = 0; g < groups_.size(); ++g) {
    TESSERA_ASSIGN(moves[g], groups_[g].shift(sequence, begin, end, delta));
  }
  return moves;
}

Result<> KvCache::require_replaceable(int32_t sequence, std::span<const std::vector<int32_t>> positions) const {
  TESSERA_TRY(require_sequence(sequence));
  std::vector<BatchToken> entries;
  for (size_t g = 0; g < groups_.size(); ++g) {
    int64_t n_blocks = 0;
    for (size_t i = 0; i < positions[g].size(); ++i) {
      const int32_t p = positions[g][i];
      if (i > 0 && p <= positions[g][i - 1])
        return fail(ErrorCode::invalid_argument, "position {} after {}: want them ascending", p, positions[g][i - 1]);
      if (g > 0 && groups_[g].stride() == 0 && !std::ranges::binary_search(positions[0], p))
        return fail(ErrorCode::invalid_argument, "position {} is held but not stored", p);
      if (i == 0 || positions[g][i - 1] / kKvBlockTokens != p / kKvBlockTokens) ++n_blocks;
    }
    TESSERA_TRY(require_positions(tokens_at(sequence, positions[g])));
    const std::vector<BatchToken> stored = tokens_at(sequence, positions[0]);
    if (groups_[g].stride() > 0 &&
        !std::ranges::equal(tokens_in(groups_[g], stored, entries), positions[g], {}, &BatchToken::position))
      return fail(ErrorCode::invalid_argument, "{} entries for {} positions each do not belong to {} positions",
                  positions[g].size(), groups_[g].stride(), stored.size());
    TESSERA_TRY(groups_[g].require_blocks(n_blocks - groups_[g].n_own_blocks(sequence)));
  }
  const std::vector<int32_t>& stored = positions[0];
  if (has_entries_ && !stored.empty() && stored.back() - stored.front() + 1 != std::ssize(stored))
    return fail(ErrorCode::invalid_argument, "{} positions from {} to {}: want none missing", stored.size(),
                stored.front(), stored.back());
  return {};
}

Result<> KvCache::replace(int32_t sequence, std::span<const std::vector<int32_t>> positions,
                          std::vector<std::vector<int32_t>>& cells) {
  cells.assign(groups_.size(), {});
  TESSERA_TRY(require_replaceable(sequence, positions));
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<BatchToken> tokens = tokens_at(sequence, positions[g]);
    TESSERA_TRY(groups_[g].remove(sequence, 0, config_.n_ctx));
    TESSERA_TRY(groups_[g].mark(tokens));
    TESSERA_TRY(groups_[g].assign_cells(tokens, cells[g]));
    groups_[g].settle(tokens);
  }
  return {};
}

Result<KvCache::Cells> KvCache::cells(int32_t sequence, size_t group) const {
  TESSERA_TRY(require_sequence(sequence));
  Cells found;
  groups_[group].cells(sequence, found.positions, found.cells);
  return found;
}

std::optional<int32_t> KvCache::min_position(int32_t sequence) const {
  if (!require_sequence(sequence)) return std::nullopt;
  for (int64_t logical = 0; logical * kKvBlockTokens < config_.n_ctx; ++logical)
    if (const uint64_t valid = groups_[0].valid_bits(sequence, logical); valid != 0)
      return static_cast<int32_t>(logical * kKvBlockTokens + std::countr_zero(valid));
  return std::nullopt;
}

std::optional<int32_t> KvCache::max_position(int32_t sequence) const {
  if (!require_sequence(sequence)) return std::nullopt;
  for (int64_t logical = div_ceil(config_.n_ctx, kKvBlockTokens) - 1; logical >= 0; --logical)
    if (const uint64_t valid = groups_[0].valid_bits(sequence, logical); valid != 0)
      return static_cast<int32_t>(logical * kKvBlockTokens + kKvBlockTokens - 1 - std::countl_zero(valid));
  return std::nullopt;
}

std::optional<int32_t> KvCache::lowest_rollback(int32_t sequence) const {
  if (!require_sequence(sequence)) return std::nullopt;
  int64_t lowest = 0;
  for (const KvGroup& group : groups_)
    for (int64_t logical = div_ceil(config_.n_ctx, kKvBlockTokens) - 1; group.window() > 0 && logical >= 0; --logical) {
      const uint64_t lost = groups_[0].valid_bits(sequence, logical) & ~group.valid_bits(sequence, logical);
      if (lost == 0) continue;
      lowest =
          std::max(lowest, logical * kKvBlockTokens + kKvBlockTokens - 1 - std::countl_zero(lost) + group.window());
      break;
    }
  return static_cast<int32_t>(lowest);
}

}  // namespace tessera
