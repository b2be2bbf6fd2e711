#include "tessera/cache/paged.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tessera/base/checked.h"

namespace tessera {

namespace {

constexpr int32_t kBlock = static_cast<int32_t>(kKvBlockTokens);

constexpr uint64_t bit_of(int32_t position) { return uint64_t{1} << (position % kBlock); }

// Bits of the slots of logical block `block` that lie in [begin, end).
uint64_t range_bits(int64_t block, int64_t begin, int64_t end) {
  const int64_t lo = std::clamp<int64_t>(begin - block * kBlock, 0, kBlock);
  const int64_t hi = std::clamp<int64_t>(end - block * kBlock, 0, kBlock);
  if (lo >= hi) return 0;
  const uint64_t below_hi = hi == kBlock ? ~uint64_t{0} : (uint64_t{1} << hi) - 1;
  return below_hi & ~((uint64_t{1} << lo) - 1);
}

Tensor cache_tensor(std::string name, DType dtype, const Layout& layout) {
  return {.name = std::move(name), .dtype = dtype, .layout = layout};
}

// One physical block of a cache tensor as a tensor of its own.
Tensor block_view(const Tensor& cache, int32_t block) {
  Tensor view = cache;
  view.layout.shape[3] = 1;
  view.offset += static_cast<size_t>(block) * static_cast<size_t>(cache.layout.nb[3]);
  return view;
}

}  // namespace

Result<std::unique_ptr<KvCache>> KvCache::plan(const Device& device, KvCacheConfig config) {
  if (config.n_ctx < 1 || config.n_ctx > kMaxContext)
    return fail(ErrorCode::invalid_argument, "context size {}, want 1 to {}", config.n_ctx, kMaxContext);
  if (config.n_sequences < 1 || config.n_sequences > kMaxSequences)
    return fail(ErrorCode::invalid_argument, "{} sequences, want 1 to {}", config.n_sequences, kMaxSequences);
  // Every sequence may leave its last block partly empty: with one more block each, n_ctx tokens always fit.
  const int64_t n_blocks = div_ceil(config.n_ctx, kKvBlockTokens) + config.n_sequences - 1;
  std::unique_ptr<KvCache> cache(new KvCache(static_cast<int32_t>(n_blocks)));
  cache->n_max_blocks_ = div_ceil(config.n_ctx, kKvBlockTokens);

  std::vector<Tensor*> tensors;
  cache->k_.reserve(config.layers.size());
  cache->v_.reserve(config.layers.size());
  for (size_t il = 0; il < config.layers.size(); ++il) {
    const KvLayerShape& shape = config.layers[il];
    for (const KvSide side : {KvSide::k, KvSide::v}) {
      const bool is_k = side == KvSide::k;
      const DType dtype = is_k ? config.type_k : config.type_v;
      const int64_t dim = is_k ? shape.k_dim : shape.v_dim;
      if (!device.supports_kv(dtype, side, dim)) {
        const int64_t block = info(dtype).block_elements;
        // Whether it is the size alone: another size of this type would do.
        const bool is_size = dim % block != 0 && device.supports_kv(dtype, side, block);
        const std::string reason = is_size ? fmt::format(": want a multiple of {}", block) : "";
        return fail(ErrorCode::invalid_argument, "{} cannot keep {} of {} elements per head as {}{}", device.name(),
                    is_k ? "K" : "V", dim, info(dtype).name, reason);
      }
      TESSERA_ASSIGN(const Layout layout, contiguous_layout(dtype, {dim, kKvBlockTokens, shape.n_heads_kv, n_blocks}));
      std::vector<Tensor>& side_tensors = is_k ? cache->k_ : cache->v_;
      side_tensors.push_back(cache_tensor((is_k ? "cache.k." : "cache.v.") + std::to_string(il), dtype, layout));
      tensors.push_back(&side_tensors.back());
    }
  }
  TESSERA_ASSIGN(const Layout blocks, contiguous_layout(DType::i32, {cache->n_max_blocks_, config.n_sequences}));
  TESSERA_ASSIGN(const Layout valid, contiguous_layout(DType::i64, {cache->n_max_blocks_, config.n_sequences}));
  cache->blocks_tensor_ = cache_tensor("cache.blocks", DType::i32, blocks);
  cache->valid_tensor_ = cache_tensor("cache.valid", DType::i64, valid);
  tensors.push_back(&cache->blocks_tensor_);
  tensors.push_back(&cache->valid_tensor_);
  cache->config_ = std::move(config);
  TESSERA_ASSIGN(cache->placement_, TensorPlacement::plan(device.buffer_type(), std::move(tensors)));
  return cache;
}

Result<> KvCache::allocate() {
  TESSERA_ASSIGN(buffers_, placement_.allocate(BufferUsage::cache));
  table_.assign(static_cast<size_t>(n_max_blocks_) * static_cast<size_t>(config_.n_sequences), {});
  const std::vector<int32_t> none(table_.size(), -1);
  return blocks_tensor_.buffer->set(blocks_tensor_, 0, std::as_bytes(std::span(none)));
}

Result<> KvCache::want_sequence(int32_t sequence) const {
  if (sequence < 0 || sequence >= config_.n_sequences)
    return fail(ErrorCode::invalid_argument, "sequence {}, want 0 to {}", sequence, config_.n_sequences - 1);
  return {};
}

Result<> KvCache::want_blocks(int64_t n) const {
  if (n > pool_.n_free())
    return fail(ErrorCode::limit, "the KV cache is full: {} blocks of {} tokens needed, {} of {} free", n, kBlock,
                pool_.n_free(), pool_.n_blocks());
  return {};
}

// Writes one table entry to the device's copy.
Result<> KvCache::publish(int32_t sequence, int64_t logical) {
  const Entry& e = entry(sequence, logical);
  const size_t at = static_cast<size_t>(sequence) * static_cast<size_t>(n_max_blocks_) + static_cast<size_t>(logical);
  TESSERA_TRY(blocks_tensor_.buffer->set(blocks_tensor_, at * sizeof e.block, std::as_bytes(std::span(&e.block, 1))));
  return valid_tensor_.buffer->set(valid_tensor_, at * sizeof e.valid, std::as_bytes(std::span(&e.valid, 1)));
}

Result<> KvCache::copy_block(int32_t from, int32_t to) {
  for (const std::vector<Tensor>* side : {&k_, &v_})
    for (const Tensor& tensor : *side)
      TESSERA_TRY(tensor.buffer->copy(block_view(tensor, from), block_view(tensor, to)));
  return {};
}

// Gives the entry a block that no other sequence reads; the pool has one free where that takes a new one.
Result<> KvCache::make_writable(int32_t sequence, int64_t logical) {
  Entry& e = entry(sequence, logical);
  if (e.block < 0) {
    e.block = pool_.take();
  } else if (pool_.is_shared(e.block)) {
    const int32_t own = pool_.take();
    TESSERA_TRY(copy_block(e.block, own));
    pool_.release(e.block);
    e.block = own;
  }
  return {};
}

// Blocks that storing these tokens takes: one per entry that has none or shares one. But where all who share a
// block write, the last of them keeps it.
int64_t KvCache::blocks_needed(std::span<const BatchToken> tokens) const {
  struct Touched {
    int32_t block;
    int32_t sequence;
    int64_t logical;
    auto operator<=>(const Touched&) const = default;
  };
  std::vector<Touched> touched;
  for (const BatchToken& t : tokens) {
    const int64_t logical = t.position / kBlock;
    const int32_t block = entry(t.sequence, logical).block;
    if (block < 0 || pool_.is_shared(block)) touched.push_back({block, t.sequence, logical});
  }
  std::ranges::sort(touched);
  const auto repeats = std::ranges::unique(touched);
  touched.erase(repeats.begin(), repeats.end());
  auto needed = static_cast<int64_t>(touched.size());
  for (size_t begin = 0, end; begin < touched.size(); begin = end) {
    const int32_t block = touched[begin].block;
    for (end = begin + 1; end < touched.size() && touched[end].block == block;) ++end;
    if (block >= 0 && end - begin == static_cast<size_t>(pool_.n_references(block))) --needed;
  }
  return needed;
}

Result<> KvCache::want_positions(std::span<const BatchToken> tokens) const {
  for (const BatchToken& t : tokens) {
    TESSERA_TRY(want_sequence(t.sequence));
    if (t.position < 0 || t.position >= config_.n_ctx)
      return fail(ErrorCode::invalid_argument, "position {} of sequence {}, want 0 to {} (the context size less 1)",
                  t.position, t.sequence, config_.n_ctx - 1);
  }
  return {};
}

Result<> KvCache::want_room_for(int32_t sequence, std::span<const BatchToken> tokens) const {
  TESSERA_TRY(want_sequence(sequence));
  TESSERA_TRY(want_positions(tokens));
  int64_t n_wanted = 0;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (i == 0 || tokens[i].position / kBlock != tokens[i - 1].position / kBlock) ++n_wanted;
  int64_t n_own = 0;  // blocks that removing the sequence gives back
  for (int64_t logical = 0; logical < n_max_blocks_; ++logical) {
    const Entry& e = entry(sequence, logical);
    if (e.block >= 0 && !pool_.is_shared(e.block)) ++n_own;
  }
  return want_blocks(n_wanted - n_own);
}

Result<> KvCache::reserve(std::span<const BatchToken> tokens, std::vector<int32_t>& cells) {
  cells.clear();
  TESSERA_TRY(want_positions(tokens));
  TESSERA_TRY(want_blocks(blocks_needed(tokens)));
  // Marked one by one, so that a position that comes twice in the batch is found too; undone if one is.
  for (size_t i = 0; i < tokens.size(); ++i) {
    Entry& e = entry(tokens[i].sequence, tokens[i].position / kBlock);
    const uint64_t bit = bit_of(tokens[i].position);
    if ((e.valid & bit) == 0) {
      e.valid |= bit;
      continue;
    }
    for (size_t j = 0; j < i; ++j)
      entry(tokens[j].sequence, tokens[j].position / kBlock).valid &= ~bit_of(tokens[j].position);
    return fail(ErrorCode::invalid_argument, "position {} of sequence {} is stored already: remove it first",
                tokens[i].position, tokens[i].sequence);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t logical = tokens[i].position / kBlock;
    const bool last_of_entry = i + 1 == tokens.size() || tokens[i + 1].sequence != tokens[i].sequence ||
                               tokens[i + 1].position / kBlock != logical;
    TESSERA_TRY(make_writable(tokens[i].sequence, logical));
    if (last_of_entry) TESSERA_TRY(publish(tokens[i].sequence, logical));
    cells.push_back(entry(tokens[i].sequence, logical).block * kBlock + tokens[i].position % kBlock);
  }
  return {};
}

Result<> KvCache::remove(int32_t sequence, int32_t begin, int32_t end) {
  TESSERA_TRY(want_sequence(sequence));
  for (int64_t logical = std::max(begin, 0) / kBlock; logical < n_max_blocks_ && logical * kBlock < end; ++logical) {
    Entry& e = entry(sequence, logical);
    const uint64_t gone = e.valid & range_bits(logical, begin, end);
    if (gone == 0) continue;
    e.valid &= ~gone;
    if (e.valid == 0) {
      pool_.release(e.block);
      e.block = -1;
    }
    TESSERA_TRY(publish(sequence, logical));
  }
  return {};
}

Result<> KvCache::keep(int32_t sequence) {
  TESSERA_TRY(want_sequence(sequence));
  for (int32_t other = 0; other < config_.n_sequences; ++other)
    if (other != sequence) TESSERA_TRY(remove(other, 0, static_cast<int32_t>(config_.n_ctx)));
  return {};
}

Result<> KvCache::clear() {
  for (int32_t sequence = 0; sequence < config_.n_sequences; ++sequence)
    TESSERA_TRY(remove(sequence, 0, static_cast<int32_t>(config_.n_ctx)));
  return {};
}

Result<CellMoves> KvCache::copy(int32_t from, int32_t to, int32_t begin, int32_t end) {
  TESSERA_TRY(want_sequence(from));
  TESSERA_TRY(want_sequence(to));
  CellMoves moves;
  if (from == to) return moves;
  int64_t n_new = 0;
  for (int64_t logical = 0; logical < n_max_blocks_; ++logical) {
    const uint64_t wanted = entry(from, logical).valid & range_bits(logical, begin, end);
    const Entry& target = entry(to, logical);
    if ((wanted & target.valid) != 0)
      return fail(ErrorCode::invalid_argument, "position {} of sequence {} is stored already: remove it first",
                  logical * kBlock + std::countr_zero(wanted & target.valid), to);
    const bool is_written = wanted != 0 && target.block >= 0 && target.block != entry(from, logical).block;
    if (is_written && pool_.is_shared(target.block)) ++n_new;
  }
  TESSERA_TRY(want_blocks(n_new));
  for (int64_t logical = 0; logical < n_max_blocks_; ++logical) {
    const Entry& source = entry(from, logical);
    Entry& target = entry(to, logical);
    const uint64_t wanted = source.valid & range_bits(logical, begin, end);
    if (wanted == 0) continue;
    if (target.block < 0) {
      target.block = source.block;
      pool_.share(source.block);
    } else if (target.block != source.block) {
      TESSERA_TRY(make_writable(to, logical));
      for (uint64_t rest = wanted; rest != 0; rest &= rest - 1) {
        moves.from.push_back(source.block * kBlock + std::countr_zero(rest));
        moves.to.push_back(target.block * kBlock + std::countr_zero(rest));
      }
    }
    target.valid |= wanted;
    TESSERA_TRY(publish(to, logical));
  }
  return moves;
}

Result<CellMoves> KvCache::shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta) {
  TESSERA_ASSIGN(const Cells all, cells(sequence));
  CellMoves moves{.from = {}, .to = {}, .delta = delta};
  if (delta == 0) return moves;
  std::vector<int32_t> shifted, staying;
  for (const int32_t p : all.positions) (p >= begin && p < end ? shifted : staying).push_back(p);
  for (const int32_t p : shifted) {
    const int64_t target = int64_t{p} + delta;
    if (target < 0 || target >= config_.n_ctx)
      return fail(ErrorCode::invalid_argument, "shift by {}: position {} of sequence {} would leave 0 to {}", delta, p,
                  sequence, config_.n_ctx - 1);
    if (std::ranges::binary_search(staying, static_cast<int32_t>(target)))
      return fail(ErrorCode::invalid_argument, "shift by {}: position {} of sequence {} would meet position {}", delta,
                  p, sequence, target);
  }
  // Blocks are kept where they are: a target cell is unused, or was read before it is written, because tokens move in
  // the order in which they lead. Blocks that fall empty are released last; the moves still read them.
  if (delta > 0) std::ranges::reverse(shifted);
  std::vector<uint64_t> next(static_cast<size_t>(n_max_blocks_), 0);
  for (const int32_t p : staying) next[static_cast<size_t>(p / kBlock)] |= bit_of(p);
  for (const int32_t p : shifted) next[static_cast<size_t>((p + delta) / kBlock)] |= bit_of(p + delta);
  int64_t n_new = 0;
  for (int64_t logical = 0; logical < n_max_blocks_; ++logical) {
    const Entry& e = entry(sequence, logical);
    if (next[static_cast<size_t>(logical)] != 0 && (e.block < 0 || pool_.is_shared(e.block))) ++n_new;
  }
  TESSERA_TRY(want_blocks(n_new));
  for (const int32_t p : shifted) moves.from.push_back(entry(sequence, p / kBlock).block * kBlock + p % kBlock);
  for (int64_t logical = 0; logical < n_max_blocks_; ++logical)
    if (next[static_cast<size_t>(logical)] != 0) TESSERA_TRY(make_writable(sequence, logical));
  for (const int32_t p : shifted)
    moves.to.push_back(entry(sequence, (p + delta) / kBlock).block * kBlock + (p + delta) % kBlock);
  for (int64_t logical = 0; logical < n_max_blocks_; ++logical) {
    Entry& e = entry(sequence, logical);
    e.valid = next[static_cast<size_t>(logical)];
    if (e.valid == 0 && e.block >= 0) {
      pool_.release(e.block);
      e.block = -1;
    }
    TESSERA_TRY(publish(sequence, logical));
  }
  return moves;
}

Result<KvCache::Cells> KvCache::cells(int32_t sequence) const {
  TESSERA_TRY(want_sequence(sequence));
  Cells found;
  for (int64_t logical = 0; logical < n_max_blocks_; ++logical) {
    const Entry& e = entry(sequence, logical);
    for (uint64_t rest = e.valid; rest != 0; rest &= rest - 1) {
      const int32_t slot = std::countr_zero(rest);
      found.positions.push_back(static_cast<int32_t>(logical) * kBlock + slot);
      found.cells.push_back(e.block * kBlock + slot);
    }
  }
  return found;
}

std::optional<int32_t> KvCache::min_position(int32_t sequence) const {
  if (!want_sequence(sequence)) return std::nullopt;
  for (int64_t logical = 0; logical < n_max_blocks_; ++logical)
    if (const uint64_t valid = entry(sequence, logical).valid; valid != 0)
      return static_cast<int32_t>(logical) * kBlock + std::countr_zero(valid);
  return std::nullopt;
}

std::optional<int32_t> KvCache::max_position(int32_t sequence) const {
  if (!want_sequence(sequence)) return std::nullopt;
  for (int64_t logical = n_max_blocks_ - 1; logical >= 0; --logical)
    if (const uint64_t valid = entry(sequence, logical).valid; valid != 0)
      return static_cast<int32_t>(logical) * kBlock + kBlock - 1 - std::countl_zero(valid);
  return std::nullopt;
}

}  // namespace tessera
