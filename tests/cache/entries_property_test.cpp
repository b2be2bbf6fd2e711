// Random operations on sequences of layers with entries, and on a model of them: the numbers of their tokens. Every
// token writes its number to its cells, and to those of the entries that it completes. After each step the sequences
// hold exactly the entries of their positions, and read their own numbers, whether they were copied, attached to a
// mark, or restored from bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "tessera/base/rng.h"
#include "tessera/cache/sequence_memory.h"
#include "tests/support/cache_support.h"

namespace tessera {
namespace {

/// CellAccess for caches on the CPU with one head per layer: a row is at its cell.
class TensorCells final : public CellAccess {
 public:
  Result<> move(const KvCache&, size_t, const CellMoves&) override {
    return fail(ErrorCode::internal, "with entries no cell moves");
  }
  Result<> read(const KvCache& cache, int64_t layer, std::span<const int32_t> cells, std::span<std::byte> k,
                std::span<std::byte>) override {
    const size_t n = cache.token_bytes(layer)->k;
    for (size_t i = 0; i < cells.size(); ++i) std::memcpy(&k[i * n], row(cache, layer, cells[i]), n);
    return {};
  }
  Result<> write(const KvCache& cache, int64_t layer, std::span<const int32_t> cells, std::span<const std::byte> k,
                 std::span<const std::byte>) override {
    const size_t n = cache.token_bytes(layer)->k;
    for (size_t i = 0; i < cells.size(); ++i) std::memcpy(row(cache, layer, cells[i]), &k[i * n], n);
    return {};
  }
  static std::byte* row(const KvCache& cache, int64_t layer, int32_t cell) {
    const Tensor& k = cache.k(layer);
    return k.buffer->base() + k.offset + to_size(cell) * cache.token_bytes(layer)->k;
  }
};

constexpr int32_t kContext = 700, kSequences = 3, kTokens = 80;

class StridedSchedule {
 public:
  StridedSchedule(int64_t window, int64_t stride, uint64_t seed) : rng_(seed) {
    // A row has four bytes in every layer.
    const KvLayerShape rows{.n_heads_kv = 1, .k_dim = 1, .window = 8, .type = DType::f32};
    const KvLayerShape four{.n_heads_kv = 1, .k_dim = 2, .window = window, .stride = 4};
    const KvLayerShape other{.n_heads_kv = 1, .k_dim = 2, .window = window, .stride = stride};
    memory_ = SequenceMemory::plan(testing::cpu_device(), {.kv_layers = {four, rows, other, four},
                                                           .n_ctx = kContext,
                                                           .n_sequences = kSequences,
                                                           .n_ubatch = kTokens,
                                                           .n_retained_tokens = 64 * below(8),
                                                           .n_marks = below(4)})
                  .value();
    EXPECT_OK(memory_->allocate());
  }

  void step() {
    const int32_t s = below(kSequences);
    switch (below(12)) {
      case 0:
        return remove(s, 0, kContext);
      case 1:
        return remove(s, below(kContext), kContext);
      case 2:
        return remove(s, below(kContext), below(kContext));
      case 3:
        return copy(s, below(kSequences));
      case 4:
        return retain(s);
      case 5:
        return attach(s);
      case 6:
        return release();
      case 7:
        return restore_parts(s);
      case 8:
        return restore(s, below(kSequences));
      default:
        return append(s);
    }
  }

  void check() const {
    for (size_t g = 0; g < kv().groups().size(); ++g) {
      std::set<int32_t> used;
      for (int32_t s = 0; s < kSequences; ++s) check_group(s, g, used);
      for (const Kept& kept : kept_) {
        const std::vector<int32_t>& blocks = g == 0 ? kept.blocks : kept.mark.windows[g];
        used.insert(blocks.begin(), blocks.end());
      }
      const KvGroup& group = kv().groups()[g];
      ASSERT_EQ(group.n_used_blocks(), std::ssize(used));
      const int32_t first = group.stride() > 0 ? static_cast<int32_t>(kv().groups()[g - 1].n_blocks()) : 0;
      for (const int32_t block : used) ASSERT_TRUE(block >= first && block < first + group.n_blocks());
    }
  }

  void finish() {
    for (int32_t s = 0; s < kSequences; ++s) remove(s, 0, kContext);
    while (!kept_.empty()) release();
    for (const KvGroup& group : kv().groups()) EXPECT_EQ(group.n_used_blocks(), 0);
  }

  int n_full = 0, n_unseen = 0, n_refused = 0, n_rolled_back = 0, n_copied = 0, n_attached = 0, n_restored = 0;

 private:
  struct Sequence {
    int32_t first = 0;  // position of the first token
    std::vector<uint32_t> numbers{};

    int32_t end() const { return first + static_cast<int32_t>(numbers.size()); }
    uint32_t at(int64_t position) const { return numbers[to_size(position - first)]; }
  };
  struct Kept {
    Sequence sequence{};
    Mark mark{};
    std::vector<int32_t> blocks{};
    std::vector<std::pair<SavedPart, std::vector<std::byte>>> parts{};
  };

  const KvCache& kv() const { return memory_->kv(); }
  int32_t below(int32_t n) { return static_cast<int32_t>(rng_.next_u32() % static_cast<uint32_t>(n)); }
  Sequence& of(int32_t s) { return model_[to_size(s)]; }

  // Whether a token at a position, and none after it, would see positions that are not held.
  bool sees_forgotten(int32_t s, int32_t position) {
    for (const KvGroup& group : kv().groups())
      for (int64_t p = std::max<int64_t>(group.seen_before(position).begin, of(s).first); p < position; ++p)
        if (group.window() > 0 && !group.holds(s, static_cast<int32_t>(p))) return true;
    return false;
  }

  void check_group(int32_t s, size_t g, std::set<int32_t>& used) const {
    const KvGroup& group = kv().groups()[g];
    const Sequence& model = model_[to_size(s)];
    ASSERT_OK_AND_ASSIGN(const KvCache::Cells held, kv().cells(s, g));
    std::vector<int32_t> all;
    if (!model.numbers.empty())
      for (int64_t p = group.at(model.first); p < group.at(model.end()); ++p) all.push_back(static_cast<int32_t>(p));
    if (group.window() == 0) {
      ASSERT_EQ(held.positions, all);
    } else {
      ASSERT_TRUE(std::ranges::includes(all, held.positions));
    }
    check_tables(s, g, held);
    for (size_t i = 0; i < held.cells.size(); ++i) {
      used.insert(held.cells[i] / 64);
      for (int64_t layer = 0; layer < std::ssize(kv().config().layers); ++layer) {
        if (!kv().is_in_group(layer, g)) continue;
        const int64_t last = group.stride() == 0 ? held.positions[i] : (held.positions[i] + 1) * group.stride() - 1;
        ASSERT_EQ(number_in(layer, held.cells[i]), number_of(model.at(last), layer, g)) << "layer " << layer;
      }
    }
  }
  static uint32_t number_of(uint32_t token, int64_t layer, size_t group) {
    return token * 64 + static_cast<uint32_t>(layer) * 8 + static_cast<uint32_t>(group);
  }
  uint32_t number_in(int64_t layer, int32_t cell) const {
    uint32_t number;
    std::memcpy(&number, TensorCells::row(kv(), layer, cell), sizeof number);
    return number;
  }

  // The tensors for graphs agree with what is held.
  void check_tables(int32_t s, size_t g, const KvCache::Cells& held) const {
    const KvGroup& group = kv().groups()[g];
    const size_t n_columns = to_size(group.blocks().shape()[0]);
    std::vector<int32_t> blocks(n_columns * kSequences);
    std::vector<uint64_t> valid(blocks.size());
    ASSERT_OK(group.blocks().buffer->get(group.blocks(), 0, std::as_writable_bytes(std::span(blocks))));
    ASSERT_OK(group.valid().buffer->get(group.valid(), 0, std::as_writable_bytes(std::span(valid))));
    const size_t first = to_size(s) * n_columns + to_size(kv().n_entry_blocks(g));  // none for a group of entries
    std::vector<uint64_t> expected(to_size(group.n_max_blocks()), 0);
    for (size_t i = 0; i < held.positions.size(); ++i) {
      const auto logical = to_size(held.positions[i] / 64);
      expected[logical] |= uint64_t{1} << (held.positions[i] % 64);
      ASSERT_EQ(blocks[first + logical] * 64 + held.positions[i] % 64, held.cells[i]);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(valid[first + i], expected[i]);
      ASSERT_EQ(blocks[first + i] >= 0, expected[i] != 0);
    }
  }

  Result<> reserve(std::span<const BatchToken> tokens) {
    Reservation reservation;
    TESSERA_TRY(memory_->reserve(tokens, reservation));
    for (const BatchToken& t : tokens) of(t.sequence).numbers.push_back(++next_);
    for (int64_t layer = 0; layer < std::ssize(kv().config().layers); ++layer)
      for (size_t g = 0; g < reservation.cells.size(); ++g)
        for (size_t i = 0; kv().is_in_group(layer, g) && i < tokens.size(); ++i)
          if (const int32_t cell = reservation.cells[g][i]; cell >= 0) {
            const uint32_t number = number_of(of(tokens[i].sequence).at(tokens[i].position), layer, g);
            std::memcpy(TensorCells::row(kv(), layer, cell), &number, sizeof number);
          }
    return {};
  }

  void append(int32_t s) {
    const auto before = model_;
    if (of(s).numbers.empty()) of(s).first = below(8) == 0 ? below(100) : 0;
    const int32_t n_parts = 1 + below(4);
    const bool fails = below(4) == 0;
    bool is_full = false;
    for (int32_t part = 0; part < n_parts && !is_full; ++part) {
      const int32_t begin = of(s).end();
      const auto tokens = testing::range_of(s, begin, std::min(begin + 1 + below(kTokens), kContext));
      if (begin == kContext) break;
      const std::vector<int64_t> needed = kv().blocks_to_decode(tokens);
      bool fits = true;
      for (size_t g = 0; g < needed.size(); ++g) fits = fits && needed[g] <= kv().groups()[g].n_free_blocks();
      const auto done = reserve(tokens);
      // A window drops blocks of the batch before it needs new ones.
      ASSERT_TRUE(done.has_value() || done.error().code() == ErrorCode::limit) << done.error().message();
      ASSERT_TRUE(done.has_value() || !fits);
      is_full = !done;
    }
    n_full += is_full;
    n_rolled_back += fails;
    ASSERT_OK(fails || is_full ? memory_->rollback() : memory_->commit());
    if (fails || is_full) model_ = before;
  }

  void remove(int32_t s, int32_t begin, int32_t end) {
    Sequence& sequence = of(s);
    const bool is_outside =
        sequence.numbers.empty() || begin >= end || begin >= sequence.end() || end <= sequence.first;
    const bool is_tail = end >= sequence.end();
    const bool is_unseen = !is_outside && begin > sequence.first && sees_forgotten(s, begin);
    const auto done = memory_->remove(s, begin, end);
    ASSERT_EQ(done.has_value(), is_outside || (is_tail && !is_unseen));
    n_unseen += is_tail && is_unseen;
    n_refused += !is_outside && !is_tail;
    if (done && !is_outside) sequence.numbers.resize(to_size(std::max(begin - sequence.first, 0)));
  }

  void copy(int32_t from, int32_t to) {
    const Sequence& source = of(from);
    const int32_t begin = below(3) == 0 ? below(kContext) : 0, end = below(kContext) + 1;
    const int32_t last = std::min(end, source.end());
    const bool is_outside =
        from == to || source.numbers.empty() || begin >= std::min(end, source.end()) || end <= source.first;
    const bool is_possible = begin <= source.first && of(to).numbers.empty();
    const bool is_unseen = !is_outside && sees_forgotten(from, last);
    const auto done = memory_->copy(from, to, begin, end, cells_);
    ASSERT_EQ(done.has_value(), is_outside || (is_possible && !is_unseen));
    n_refused += !done && !is_possible;
    if (is_outside || !done) return;
    of(to) = {source.first, {source.numbers.begin(), source.numbers.begin() + last - source.first}};
    ++n_copied;
  }

  void retain(int32_t s) {
    if (of(s).numbers.empty() || of(s).first > 0 || kept_.size() > 5) return;
    Kept kept{.sequence = of(s)};
    ASSERT_OK_AND_ASSIGN(kept.mark, memory_->retain_mark(s));
    for (int64_t logical = 0; logical * 64 < of(s).end(); ++logical) {
      ASSERT_OK_AND_ASSIGN(const int32_t block, memory_->retain_block(s, logical));
      kept.blocks.push_back(block);
    }
    std::vector<SavedPart> parts;
    for (int64_t logical = 0; (logical + 1) * 64 <= of(s).end(); ++logical) parts.push_back({.logical = logical});
    for (const SavedPart& part : memory_->parts_of_mark(of(s).end())) parts.push_back(part);
    for (const SavedPart& part : parts) {
      const int32_t place =
          part.kind == SavedPart::Kind::block ? kept.blocks[to_size(part.logical)] : memory_->place_of(part, kept.mark);
      ASSERT_OK_AND_ASSIGN(auto bytes, memory_->save_part(part, place, cells_));
      kept.parts.emplace_back(part, std::move(bytes));
    }
    kept_.push_back(std::move(kept));
  }

  void attach(int32_t s) {
    if (kept_.empty() || !of(s).numbers.empty()) return;
    const Kept& kept = kept_[to_size(below(static_cast<int32_t>(kept_.size())))];
    ASSERT_OK(memory_->attach(s, kept.blocks, kept.sequence.end(), kept.mark));
    of(s) = kept.sequence;
    ++n_attached;
  }

  void release() {
    if (kept_.empty()) return;
    const auto at = kept_.begin() + below(static_cast<int32_t>(kept_.size()));
    for (const int32_t block : at->blocks) memory_->release_block(block);
    memory_->release_mark(at->mark);
    kept_.erase(at);
  }

  // All parts of a mark, perhaps without the first blocks, which the sequence has; or a part of them: then the sequence
  // cannot go on.
  void restore_parts(int32_t s) {
    if (kept_.empty()) return;
    const Kept& kept = kept_[to_size(below(static_cast<int32_t>(kept_.size())))];
    const int32_t n_held = of(s).numbers.empty() ? below(kept.sequence.end() / 64 + 1) : 0;
    if (n_held > 0) ASSERT_OK(memory_->attach(s, kept.blocks, kept.sequence.end(), kept.mark));
    ASSERT_OK(memory_->cut_for_parts(s, 64 * n_held));
    of(s) = {};
    const size_t n_parts = kept.parts.size(), n = below(2) == 0 ? n_parts : rng_.next_u32() % n_parts;
    bool is_whole = n == n_parts, is_full = false;
    for (size_t i = to_size(n_held); i < n && !is_full; ++i) {
      const auto done = memory_->restore_part(s, kept.parts[i].first, kept.parts[i].second, cells_);
      ASSERT_TRUE(done.has_value() || done.error().code() == ErrorCode::limit) << done.error().message();
      is_full = !done;
    }
    n_full += is_full;
    is_whole = is_whole && !is_full;
    if (is_whole) {
      of(s) = kept.sequence;
      ++n_restored;
      return;
    }
    const int32_t end = memory_->max_position(s).value_or(-1) + 1;
    Reservation reservation;
    if (end == kept.sequence.end() && end < kContext) {
      EXPECT_FALSE(memory_->reserve(testing::range_of(s, end, end + 1), reservation).has_value());
      ASSERT_OK(memory_->rollback());
    }
    ASSERT_OK(memory_->cut_for_parts(s, 0));
  }

  void restore(int32_t from, int32_t to) {
    ASSERT_OK_AND_ASSIGN(const auto saved, memory_->save(from, 1, cells_));
    ASSERT_OK_AND_ASSIGN(const uint64_t n_bytes, memory_->saved_bytes(from));
    EXPECT_EQ(saved.size(), n_bytes);
    EXPECT_LE(saved.size(), *memory_->most_saved_bytes());
    const auto done = memory_->restore(to, 1, saved, cells_);
    ASSERT_TRUE(done.has_value() || done.error().code() == ErrorCode::limit) << done.error().message();
    n_full += !done;
    if (!done) return;
    ASSERT_OK_AND_ASSIGN(const auto again, memory_->save(to, 1, cells_));
    EXPECT_EQ(again, saved);
    of(to) = of(from);
    ++n_restored;
  }

  Rng rng_;
  std::unique_ptr<SequenceMemory> memory_;
  TensorCells cells_;
  std::array<Sequence, kSequences> model_;
  std::vector<Kept> kept_;
  uint32_t next_ = 0;
};

TEST(KvEntries, SequencesReadTheirOwnEntriesAfterAnyOperations) {
  int n_full = 0, n_unseen = 0, n_refused = 0, n_rolled_back = 0, n_copied = 0, n_attached = 0, n_restored = 0;
  const int n_schedules = testing::all_or_few(60, 15);
  for (int seed = 0; seed < n_schedules; ++seed) {
    StridedSchedule schedule(std::array{1, 5, 30, 70}[to_size(seed % 4)],
                             std::array{1, 3, 16, 128, 4}[to_size(seed % 5)], static_cast<uint64_t>(seed));
    for (int i = 0; i < 150 && !::testing::Test::HasFailure(); ++i) {
      schedule.step();
      schedule.check();
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "seed " << seed << ", step " << i;
        return;
      }
    }
    schedule.finish();
    n_full += schedule.n_full;
    n_unseen += schedule.n_unseen;
    n_refused += schedule.n_refused;
    n_rolled_back += schedule.n_rolled_back;
    n_copied += schedule.n_copied;
    n_attached += schedule.n_attached;
    n_restored += schedule.n_restored;
  }
  // The relevant cases occurred.
  for (const int n : {n_full, n_unseen, n_refused, n_rolled_back, n_copied, n_attached, n_restored})
    EXPECT_GT(n, n_schedules / 2);
}

}  // namespace
}  // namespace tessera
