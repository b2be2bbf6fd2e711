#include "tessera/cache/kv_group.h"

#include <algorithm>
#include <bit>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr int32_t kBlock = static_cast<int32_t>(kKvBlockTokens);

constexpr uint64_t bit_of(int64_t position) { return uint64_t{1} << (position % kBlock); }

// One physical block of a cache tensor as a separate tensor.
Tensor block_view(const Tensor& cache, int32_t block) {
  Tensor view = cache;
  view.layout.shape[3] = 1;
  view.offset += to_size(block) * to_size(cache.layout.nb[3]);
  return view;
}

}  // namespace

uint64_t range_bits(int64_t block, int64_t begin, int64_t end) {
  const int64_t lo = std::clamp<int64_t>(begin - block * kBlock, 0, kBlock);
  const int64_t hi = std::clamp<int64_t>(end - block * kBlock, 0, kBlock);
  if (lo >= hi) return 0;
  const uint64_t below_hi = hi == kBlock ? ~uint64_t{0} : (uint64_t{1} << hi) - 1;
  return below_hi & ~((uint64_t{1} << lo) - 1);
}

std::span<const BatchToken> tokens_in(const KvGroup& group, std::span<const BatchToken> tokens,
                                      std::vector<BatchToken>& entries) {
  if (group.stride() == 0) return tokens;
  entries.clear();
  for (const BatchToken& t : tokens)
    if (t.position % group.stride() == group.stride() - 1)
      entries.push_back({.position = static_cast<int32_t>(group.at(t.position)), .sequence = t.sequence});
  return entries;
}

KvGroup::KvGroup(int64_t window, int64_t stride, const Size& size, KvTables& tables)
    : window_(window),
      stride_(stride),
      size_(size),
      pool_(static_cast<int32_t>(size.n_blocks), size.first_block),
      tables_(&tables) {}

void KvGroup::reset() {
  const auto n_sequences = to_size(size_.n_sequences);
  table_.assign(to_size(size_.n_max_blocks) * n_sequences, {});
  first_.assign(n_sequences, 0);
}

// Writes one table entry to the device's copy.
Result<> KvGroup::publish(int32_t sequence, int64_t logical) {
  const Entry& e = entry(sequence, logical);
  return publish(sequence, logical, std::span(&e.block, 1), std::span(&e.valid, 1));
}

Result<> KvGroup::publish(int32_t sequence, int64_t logical, std::span<const int32_t> blocks,
                          std::span<const uint64_t> valid) {
  const auto& [block_table, valid_table] = *tables_;
  const auto first = to_size(sequence * block_table.shape()[0] + size_.first_column + logical);
  TESSERA_TRY(block_table.buffer->set(block_table, first * sizeof(int32_t), std::as_bytes(blocks)));
  return valid_table.buffer->set(valid_table, first * sizeof(uint64_t), std::as_bytes(valid));
}

Result<> KvGroup::copy_block(int32_t from, int32_t to) {
  for (const Tensor* tensor : data_)
    TESSERA_TRY(tensor->buffer->copy(block_view(*tensor, from), block_view(*tensor, to)));
  return {};
}

void KvGroup::hold_from(int32_t sequence, int64_t logical) {
  int64_t& first = first_[to_size(sequence)];
  first = std::min(first, logical);
}

// Ensures that the entry has a block which no other sequence reads. The pool must have a free block if one is needed.
Result<> KvGroup::make_writable(int32_t sequence, int64_t logical) {
  Entry& e = entry(sequence, logical);
  if (e.block < 0) {
    e.block = pool_.take();
    hold_from(sequence, logical);
  } else if (pool_.is_shared(e.block)) {
    const int32_t own = pool_.take();
    TESSERA_TRY(copy_block(e.block, own));
    pool_.release(e.block);
    e.block = own;
  }
  return {};
}

Result<> KvGroup::drop(int32_t sequence, int64_t logical) {
  Entry& e = entry(sequence, logical);
  if (e.block >= 0) pool_.release(e.block);
  e = {};
  return publish(sequence, logical);
}

bool KvGroup::holds(int32_t sequence, int32_t position) const {
  return (entry(sequence, position / kBlock).valid & bit_of(position)) != 0;
}

std::vector<uint64_t> KvGroup::image(int32_t sequence) const { return image_without(sequence, 0, 0); }

std::vector<uint64_t> KvGroup::image_without(int32_t sequence, int64_t begin, int64_t end) const {
  std::vector<uint64_t> bits(to_size(size_.n_max_blocks), 0);
  for (int64_t logical = first_[to_size(sequence)]; logical < size_.n_max_blocks; ++logical)
    bits[to_size(logical)] = entry(sequence, logical).valid & ~range_bits(logical, begin, end);
  return bits;
}

std::vector<uint64_t> KvGroup::image_shifted(int32_t sequence, int64_t begin, int64_t end, int64_t delta) const {
  std::vector<uint64_t> bits = image_without(sequence, begin, end);
  for (int64_t logical = first_[to_size(sequence)]; logical < size_.n_max_blocks; ++logical)
    for (uint64_t rest = entry(sequence, logical).valid & range_bits(logical, begin, end); rest != 0;
         rest &= rest - 1) {
      const int64_t target = logical * kBlock + std::countr_zero(rest) + delta;
      bits[to_size(target / kBlock)] |= bit_of(target);
    }
  return bits;
}

void KvGroup::cells(int32_t sequence, std::vector<int32_t>& positions, std::vector<int32_t>& cells) const {
  for (int64_t logical = first_[to_size(sequence)]; logical < size_.n_max_blocks; ++logical) {
    const Entry& e = entry(sequence, logical);
    for (uint64_t rest = e.valid; rest != 0; rest &= rest - 1) {
      const int32_t block_offset = std::countr_zero(rest);
      positions.push_back(static_cast<int32_t>(logical) * kBlock + block_offset);
      cells.push_back(e.block * kBlock + block_offset);
    }
  }
}

Result<> KvGroup::require_blocks(int64_t n) const {
  if (n <= pool_.n_free()) return {};
  std::string of;
  if (window_ > 0) of = " of layers with a window of " + std::to_string(window_);
  if (stride_ > 0) of = " of entries for " + std::to_string(stride_) + " tokens each";
  return fail(ErrorCode::limit, "the KV cache{} is full: {} blocks of {} {} needed, {} of {} free", of, n, kBlock,
              stride_ > 0 ? "entries" : "tokens", pool_.n_free(), pool_.n_blocks());
}

// One block per entry without a block or with a shared one. If all entries that share a block write, the last one keeps
// it.
int64_t KvGroup::blocks_to_store(std::span<const BatchToken> tokens) const {
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
    if (block >= 0 && end - begin == to_size(pool_.n_references(block))) --needed;
  }
  return needed;
}

// Between micro-batches a group with a window drops the positions of the batch that no later token sees. Therefore a
// sequence whose tokens are in order never has more new blocks than a window, a rollback and a micro-batch span, and a
// copy of its last block.
int64_t KvGroup::blocks_to_decode(std::span<const BatchToken> tokens, int64_t n_ubatch) const {
  if (window_ == 0) return blocks_to_store(tokens);
  std::vector<BatchToken> sorted(tokens.begin(), tokens.end());
  std::ranges::stable_sort(sorted, {}, &BatchToken::sequence);
  const int64_t most = div_ceil(window_ - 1 + kRollbackTokens + n_ubatch, kKvBlockTokens) + 2;
  int64_t n = 0;
  for (size_t begin = 0, end; begin < sorted.size(); begin = end) {
    bool is_in_order = true;
    for (end = begin + 1; end < sorted.size() && sorted[end].sequence == sorted[begin].sequence; ++end)
      is_in_order = is_in_order && sorted[end].position == sorted[end - 1].position + 1;
    const int64_t all = blocks_to_store(std::span(sorted).subspan(begin, end - begin));
    n += is_in_order ? std::min(all, most) : all;
  }
  return n;
}

int64_t KvGroup::blocks_to_copy(int32_t from, int32_t to, int64_t begin, int64_t end) const {
  int64_t n = 0;
  for (int64_t logical = first_[to_size(from)]; logical < size_.n_max_blocks; ++logical) {
    const Entry &source = entry(from, logical), &target = entry(to, logical);
    const bool is_read = (source.valid & range_bits(logical, begin, end)) != 0;
    const bool is_written = is_read && target.block >= 0 && target.block != source.block;
    if (is_written && pool_.is_shared(target.block)) ++n;
  }
  return n;
}

int64_t KvGroup::blocks_to_shift(int32_t sequence, int64_t begin, int64_t end, int64_t delta) const {
  const std::vector<uint64_t> next = image_shifted(sequence, begin, end, delta);
  int64_t n = 0;
  for (int64_t logical = 0; logical < size_.n_max_blocks; ++logical) {
    const Entry& e = entry(sequence, logical);
    if (next[to_size(logical)] != 0 && (e.block < 0 || pool_.is_shared(e.block))) ++n;
  }
  return n;
}

int64_t KvGroup::n_own_blocks(int32_t sequence) const {
  int64_t n = 0;
  for (int64_t logical = first_[to_size(sequence)]; logical < size_.n_max_blocks; ++logical) {
    const Entry& e = entry(sequence, logical);
    if (e.block >= 0 && !pool_.is_shared(e.block)) ++n;
  }
  return n;
}

// Positions are marked one by one, which also finds duplicates among the tokens. An error undoes the marks.
Result<> KvGroup::mark(std::span<const BatchToken> tokens) {
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
  return {};
}

Result<> KvGroup::assign_cells(std::span<const BatchToken> tokens, std::vector<int32_t>& cells) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t logical = tokens[i].position / kBlock;
    const bool last_of_entry = i + 1 == tokens.size() || tokens[i + 1].sequence != tokens[i].sequence ||
                               tokens[i + 1].position / kBlock != logical;
    Entry& e = entry(tokens[i].sequence, logical);
    if (e.block < 0) e.is_fresh = true;
    TESSERA_TRY(make_writable(tokens[i].sequence, logical));
    if (last_of_entry) TESSERA_TRY(publish(tokens[i].sequence, logical));
    cells.push_back(e.block * kBlock + tokens[i].position % kBlock);
  }
  return {};
}

void KvGroup::settle(std::span<const BatchToken> tokens) {
  for (const BatchToken& t : tokens) entry(t.sequence, t.position / kBlock).is_fresh = false;
}

Result<> KvGroup::remove(int32_t sequence, int64_t begin, int64_t end) {
  const int64_t first = std::max(first_[to_size(sequence)], std::max<int64_t>(begin, 0) / kBlock);
  for (int64_t logical = first; logical < size_.n_max_blocks && logical * kBlock < end; ++logical) {
    Entry& e = entry(sequence, logical);
    const uint64_t gone = e.valid & range_bits(logical, begin, end);
    if (gone == 0) continue;
    e.valid &= ~gone;
    TESSERA_TRY(e.valid == 0 ? drop(sequence, logical) : publish(sequence, logical));
  }
  return {};
}

Result<> KvGroup::forget_before(int32_t sequence, int64_t position, Which which) {
  int64_t& first = first_[to_size(sequence)];
  const int64_t end = std::max<int64_t>(position, 0) / kBlock;
  for (int64_t logical = first; logical < end; ++logical) {
    const Entry& e = entry(sequence, logical);
    if (e.block >= 0 && (which == Which::all || e.is_fresh)) TESSERA_TRY(drop(sequence, logical));
  }
  if (which == Which::all) first = std::max(first, end);
  return {};
}

Result<CellMoves> KvGroup::copy(int32_t from, int32_t to, int64_t begin, int64_t end) {
  CellMoves moves;
  for (int64_t logical = first_[to_size(from)]; logical < size_.n_max_blocks; ++logical) {
    const Entry& source = entry(from, logical);
    Entry& target = entry(to, logical);
    const uint64_t wanted = source.valid & range_bits(logical, begin, end);
    if (wanted == 0) continue;
    if (target.block < 0) {
      target.block = source.block;
      pool_.share(source.block);
      hold_from(to, logical);
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

// Blocks stay in their entries. Tokens move in the direction of the shift, the foremost first, so a target cell is
// unused or already read. Blocks that become empty are released last, because the moves still read them.
Result<CellMoves> KvGroup::shift(int32_t sequence, int64_t begin, int64_t end, int32_t delta) {
  CellMoves moves{.from = {}, .to = {}, .delta = delta};
  std::vector<int32_t> positions, all_cells, shifted;
  cells(sequence, positions, all_cells);
  for (size_t i = 0; i < positions.size(); ++i)
    if (positions[i] >= begin && positions[i] < end) {
      shifted.push_back(positions[i]);
      moves.from.push_back(all_cells[i]);
    }
  if (delta > 0) {
    std::ranges::reverse(shifted);
    std::ranges::reverse(moves.from);
  }
  const std::vector<uint64_t> next = image_shifted(sequence, begin, end, delta);
  for (int64_t logical = 0; logical < size_.n_max_blocks; ++logical)
    if (next[to_size(logical)] != 0) TESSERA_TRY(make_writable(sequence, logical));
  for (const int32_t p : shifted)
    moves.to.push_back(entry(sequence, (p + delta) / kBlock).block * kBlock + (p + delta) % kBlock);
  for (int64_t logical = first_[to_size(sequence)]; logical < size_.n_max_blocks; ++logical) {
    Entry& e = entry(sequence, logical);
    if (e.block < 0) continue;
    e.valid = next[to_size(logical)];
    TESSERA_TRY(e.valid == 0 ? drop(sequence, logical) : publish(sequence, logical));
  }
  return moves;
}

// --- retained blocks

int64_t KvGroup::n_blocks_of(int32_t sequence) const {
  int64_t n = 0;
  for (int64_t logical = first_[to_size(sequence)]; logical < size_.n_max_blocks; ++logical)
    if (entry(sequence, logical).block >= 0) ++n;
  return n;
}

size_t KvGroup::block_bytes() const {
  size_t bytes = 0;
  for (const Tensor* tensor : data_) bytes += to_size(tensor->layout.nb[3]);
  return bytes;
}

int64_t KvGroup::Range::n_blocks() const { return begin < end ? div_ceil<int64_t>(end, kBlock) - begin / kBlock : 0; }

KvGroup::Range KvGroup::seen_before(int64_t position) const {
  return {window_ == 0 ? 0 : std::max<int64_t>(position - window_ + 1, 0), at(position)};
}

int32_t KvGroup::retain(int32_t sequence, int64_t logical) {
  const int32_t block = entry(sequence, logical).block;
  pool_.retain(block);
  return block;
}

Result<> KvGroup::attach(int32_t sequence, std::span<const int32_t> blocks, int64_t begin, int64_t end) {
  if (blocks.empty()) return {};
  const int64_t first = begin / kBlock;
  std::vector<uint64_t> valid;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t logical = first + static_cast<int64_t>(i);
    valid.push_back(range_bits(logical, begin, end));
    entry(sequence, logical) = {.block = blocks[i], .valid = valid.back()};
    pool_.share(blocks[i]);
  }
  first_[to_size(sequence)] = first;
  return publish(sequence, first, blocks, valid);
}

Result<> KvGroup::merge(int32_t sequence, int64_t logical, int32_t block) {
  Entry& e = entry(sequence, logical);
  if (e.block == block) return {};
  pool_.share(block);
  pool_.release(e.block);
  e.block = block;
  return publish(sequence, logical);
}

}  // namespace tessera
