// Random operations on a paged cache and on a model of it, which is a map from position to a number per sequence. Every
// stored token gets a unique number, written to its cell in each group. After each step, every sequence must read its
// own numbers. The test does not predict which positions a window group forgets. It only checks that no position to
// which a token attends is forgotten.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "tessera/base/rng.h"
#include "tests/support/cache_support.h"

namespace tessera {
namespace {

struct Stored {
  float number = 0;
  bool is_held = true;  // in the window group
};
using Sequence = std::map<int32_t, Stored>;

struct Counts {
  int full = 0, moved = 0, forgotten = 0, rolled_back = 0, unseen = 0;
};

class Pair {
 public:
  Pair(int64_t n_ctx, int32_t n_sequences, int64_t window, uint64_t seed)
      : n_ctx_(static_cast<int32_t>(n_ctx)),
        n_sequences_(n_sequences),
        window_(static_cast<int32_t>(window)),
        cache_(window == 0 ? testing::small_cache(n_ctx, n_sequences)
                           : testing::window_cache(n_ctx, n_sequences, window, kUbatch)),
        model_(static_cast<size_t>(n_sequences)),
        rng_(seed) {}

  void step() {
    const int32_t s = below(n_sequences_);
    switch (below(9)) {
      case 0:
      case 1:
      case 2:
        return reserve();
      case 3:
        return append(s);
      case 4:
        return remove(s);
      case 5:
      case 6:
        return copy(s, below(n_sequences_));
      case 7:
        return shift(s);
      default:
        return below(10) == 0 ? keep(s) : remove(s);
    }
  }

  // The tables agree with the model, both in the cache's own view and in the tensors for graphs.
  void check() {
    for (size_t g = 0; g < cache_->groups().size(); ++g) check_group(g);
    for (int32_t s = 0; s < n_sequences_; ++s) {
      const Sequence& expected = of(s);
      ASSERT_EQ(cache_->min_position(s), expected.empty() ? std::nullopt : std::optional(expected.begin()->first));
      ASSERT_EQ(cache_->max_position(s), expected.empty() ? std::nullopt : std::optional(expected.rbegin()->first));
      int32_t lowest = 0;
      for (const auto& [position, stored] : expected)
        if (!stored.is_held) lowest = position + window_;
      ASSERT_EQ(cache_->lowest_rollback(s), lowest);
    }
  }

  const Counts& counts() const { return counts_; }

 private:
  static constexpr int32_t kUbatch = 90;

  int32_t below(int32_t n) { return static_cast<int32_t>(rng_.next_u32() % static_cast<uint32_t>(n)); }
  Sequence& of(int32_t s) { return model_[static_cast<size_t>(s)]; }
  float* cells_of(size_t group) {
    const Tensor& k = cache_->k(static_cast<int64_t>(group));
    return reinterpret_cast<float*>(k.buffer->base() + k.offset);
  }
  // Whether a token after [.., p) would attend to a position that is not held.
  bool sees_forgotten(const Sequence& sequence, int32_t p) const {
    for (auto it = sequence.upper_bound(p - window_); it != sequence.end() && it->first < p; ++it)
      if (!it->second.is_held) return true;
    return false;
  }
  bool ends_unseen(const Sequence& sequence) const {
    return !sequence.empty() && sees_forgotten(sequence, sequence.rbegin()->first + 1);
  }

  void check_group(size_t g) {
    const KvGroup& group = cache_->groups()[g];
    std::map<int32_t, std::set<std::pair<int32_t, int64_t>>> owners;  // block > its readers
    std::vector<int32_t> blocks(static_cast<size_t>(group.blocks().shape().n_elements()));
    std::vector<int64_t> valid(blocks.size());
    ASSERT_OK(group.blocks().buffer->get(group.blocks(), 0, std::as_writable_bytes(std::span(blocks))));
    ASSERT_OK(group.valid().buffer->get(group.valid(), 0, std::as_writable_bytes(std::span(valid))));
    const int64_t n_max_blocks = group.blocks().shape()[0];
    for (int32_t s = 0; s < n_sequences_; ++s) {
      ASSERT_OK_AND_ASSIGN(const KvCache::Cells cells, cache_->cells(s, g));
      size_t i = 0;
      for (const auto& [position, stored] : of(s)) {
        const auto at = static_cast<size_t>(s * n_max_blocks + position / 64);
        const bool is_held = g == 0 || stored.is_held;
        ASSERT_EQ(valid[at] >> (position % 64) & 1, is_held ? 1 : 0) << "sequence " << s << " position " << position;
        if (!is_held) continue;
        ASSERT_LT(i, cells.positions.size());
        ASSERT_EQ(cells.positions[i], position);
        ASSERT_EQ(cells.cells[i], blocks[at] * 64 + position % 64);
        ASSERT_EQ(cells_of(g)[cells.cells[i]], stored.number) << "sequence " << s << " position " << position;
        ++i;
      }
      ASSERT_EQ(cells.positions.size(), i);
      int64_t n_bits = 0;
      for (int64_t logical = 0; logical < n_max_blocks; ++logical) {
        const auto at = static_cast<size_t>(s * n_max_blocks + logical);
        ASSERT_EQ(blocks[at] < 0, valid[at] == 0);
        if (blocks[at] >= 0) owners[blocks[at]].insert({s, logical});
        n_bits += std::popcount(static_cast<uint64_t>(valid[at]));
      }
      ASSERT_EQ(n_bits, static_cast<int64_t>(i));
    }
    // Every block is either used or free, once. Sequences that share a block agree on its logical block.
    ASSERT_EQ(group.n_used_blocks(), static_cast<int64_t>(owners.size()));
    for (const auto& [block, readers] : owners)
      for (const auto& reader : readers) ASSERT_EQ(reader.second, readers.begin()->second) << "block " << block;
  }

  void reserve() {
    std::vector<std::vector<BatchToken>> parts(static_cast<size_t>(1 + below(3)));
    for (auto& tokens : parts)
      for (int32_t i = 0; i <= below(2); ++i) add_range(tokens, below(n_sequences_), below(n_ctx_), 1 + below(45));
    decode(parts);
  }

  // Appends some micro-batches to a sequence.
  void append(int32_t s) {
    int32_t begin = of(s).empty() ? 0 : of(s).rbegin()->first + 1;
    std::vector<std::vector<BatchToken>> parts(static_cast<size_t>(1 + below(6)));
    for (auto& tokens : parts) {
      const int32_t n = 1 + below(kUbatch);
      add_range(tokens, s, begin, n);
      begin += n;
    }
    decode(parts);
  }

  void add_range(std::vector<BatchToken>& tokens, int32_t s, int32_t begin, int32_t n) {
    for (int32_t p = begin; p < std::min(begin + n, n_ctx_); ++p) tokens.push_back({.position = p, .sequence = s});
  }

  // Decodes a batch that succeeds, or that fails at some micro-batch and then changes nothing.
  void decode(const std::vector<std::vector<BatchToken>>& parts) {
    const std::vector<Sequence> before = model_;
    const size_t fails_at = below(4) == 0 ? static_cast<size_t>(below(static_cast<int32_t>(parts.size()))) : ~size_t{0};
    std::map<int32_t, int32_t> ends;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!store(parts[i]) || i == fails_at) {
        ASSERT_OK(cache_->rollback());
        model_ = before;
        ++counts_.rolled_back;
        return;
      }
      for (const BatchToken& t : parts[i]) ends[t.sequence] = std::max(ends[t.sequence], t.position + 1);
    }
    ASSERT_OK(cache_->commit());
    if (window_ == 0) return;
    for (const auto& [s, end] : ends) {
      // The bounds of the positions that may be forgotten. Positions from before the batch must be held if required.
      ASSERT_OK_AND_ASSIGN(const KvCache::Cells held, cache_->cells(s, 1));
      for (auto& [position, stored] : of(s)) {
        const bool is_held = std::ranges::binary_search(held.positions, position);
        ASSERT_TRUE(is_held || !stored.is_held || position + window_ <= end - 64) << position << " of " << end;
        ASSERT_TRUE(!is_held || stored.is_held || !before[static_cast<size_t>(s)].contains(position));
        counts_.forgotten += stored.is_held && !is_held;
        stored.is_held = is_held;
      }
    }
  }

  bool store(const std::vector<BatchToken>& tokens) {
    std::set<std::pair<int32_t, int32_t>> seen;
    bool is_new = true, is_unseen = false;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto& [token, p, s, wants_logits] = tokens[i];
      is_new &= seen.emplace(s, p).second && !of(s).contains(p);
      is_unseen |= window_ > 0 && sees_forgotten(of(s), p);
    }
    std::vector<std::vector<int32_t>> cells;
    const auto done = cache_->reserve(tokens, cells);
    if (!done) {
      EXPECT_TRUE(!is_new || is_unseen || done.error().code() == ErrorCode::limit) << done.error().message();
      counts_.full += done.error().code() == ErrorCode::limit;
      counts_.unseen += is_unseen;
      return false;
    }
    EXPECT_TRUE(is_new && !is_unseen);
    for (size_t i = 0; i < tokens.size(); ++i) {
      of(tokens[i].sequence)[tokens[i].position] = {.number = ++next_};
      for (size_t g = 0; g < cells.size(); ++g) cells_of(g)[cells[g][i]] = next_;
    }
    // All positions to which a token attends are held. Earlier positions of the batch itself may be forgotten already.
    for (const BatchToken& t : tokens)
      for (int32_t p = std::max(t.position - window_ + 1, 0); window_ > 0 && p <= t.position; ++p)
        EXPECT_EQ(cache_->groups()[1].holds(t.sequence, p), of(t.sequence).contains(p));
    for (Sequence& sequence : model_)
      for (auto& [position, stored] : sequence)
        if (window_ > 0 && stored.is_held)
          stored.is_held = cache_->groups()[1].holds(static_cast<int32_t>(&sequence - model_.data()), position);
    return true;
  }

  void remove(int32_t s) {
    const int32_t begin = below(n_ctx_) - 5, end = begin + below(n_ctx_);
    Sequence after = of(s);
    std::erase_if(after, [&](const auto& e) { return e.first >= begin && e.first < end; });
    const bool is_tail = !after.empty() && after.rbegin()->first < begin && after.size() < of(s).size();
    const auto done = cache_->remove(s, begin, end);
    ASSERT_EQ(done.has_value(), !(is_tail && sees_forgotten(after, begin)));
    if (!done) return void(++counts_.unseen);
    of(s) = after;
  }

  void keep(int32_t s) {
    ASSERT_OK(cache_->keep(s));
    for (int32_t other = 0; other < n_sequences_; ++other)
      if (other != s) of(other).clear();
  }

  void copy(int32_t from, int32_t to) {
    const int32_t begin = below(n_ctx_), end = begin + below(n_ctx_);
    Sequence after = of(to);
    bool meets = false;
    for (const auto& [position, stored] : of(from))
      if (position >= begin && position < end && from != to) meets |= !after.emplace(position, stored).second;
    finish(cache_->copy(from, to, begin, end), !meets, after, of(to));
  }

  void shift(int32_t s) {
    const int32_t begin = below(n_ctx_), end = begin + below(n_ctx_), delta = below(140) - 70;
    Sequence after;
    bool is_possible = true;
    for (const auto& [position, stored] : of(s)) {
      const bool moves = position >= begin && position < end;
      const int32_t target = position + (moves ? delta : 0);
      is_possible &= target >= 0 && target < n_ctx_ && after.emplace(target, stored).second;
    }
    finish(cache_->shift(s, begin, end, delta), is_possible, after, of(s));
  }

  void finish(const Result<std::vector<CellMoves>>& moves, bool is_possible, const Sequence& after,
              Sequence& sequence) {
    const bool changes =
        !std::ranges::equal(after, sequence, {}, &Sequence::value_type::first, &Sequence::value_type::first);
    const bool is_unseen = window_ > 0 && ends_unseen(after);
    if (!moves) {
      ASSERT_TRUE(!is_possible || is_unseen || moves.error().code() == ErrorCode::limit) << moves.error().message();
      counts_.unseen += is_possible && is_unseen;
      return;
    }
    ASSERT_TRUE(is_possible);
    ASSERT_FALSE(is_unseen && changes);
    for (size_t g = 0; g < moves->size(); ++g) apply((*moves)[g], cells_of(g));
    sequence = after;
  }

  // In chunks of 7, each read before it is written.
  void apply(const CellMoves& moves, float* cells) {
    ASSERT_EQ(moves.from.size(), moves.to.size());
    for (size_t begin = 0; begin < moves.from.size(); begin += 7) {
      const size_t end = std::min(begin + 7, moves.from.size());
      std::vector<float> staged;
      for (size_t i = begin; i < end; ++i) staged.push_back(cells[moves.from[i]]);
      for (size_t i = begin; i < end; ++i) cells[moves.to[i]] = staged[i - begin];
    }
    counts_.moved += static_cast<int>(moves.from.size());
  }

  int32_t n_ctx_, n_sequences_, window_;
  std::unique_ptr<KvCache> cache_;
  std::vector<Sequence> model_;
  Rng rng_;
  float next_ = 0;
  Counts counts_;
};

Counts run(int n_seeds, auto make) {
  Counts sum;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(n_seeds); ++seed) {
    Pair pair = make(seed);
    for (int i = 0; i < 150; ++i) {
      pair.step();
      pair.check();
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "seed " << seed << ", step " << i;
        return sum;
      }
    }
    sum.full += pair.counts().full;
    sum.moved += pair.counts().moved;
    sum.forgotten += pair.counts().forgotten;
    sum.rolled_back += pair.counts().rolled_back;
    sum.unseen += pair.counts().unseen;
  }
  return sum;
}

TEST(KvCache, EverySequenceReadsItsOwnTokensAfterAnyOperations) {
  const Counts counts =
      run(40, [](uint64_t seed) { return Pair(200 + static_cast<int64_t>(seed), seed % 5 == 0 ? 1 : 4, 0, seed); });
  EXPECT_GT(counts.full, 50);  // the relevant cases occurred
  EXPECT_GT(counts.moved, 2000);
  EXPECT_GT(counts.rolled_back, 100);
}

TEST(KvCache, WindowsForgetOnlyWhatNoTokenSees) {
  const int n_seeds = testing::all_or_few(60, 15);
  const Counts counts = run(n_seeds, [](uint64_t seed) {
    return Pair(500 + 20 * static_cast<int64_t>(seed), seed % 5 == 0 ? 1 : 3, std::array{1, 5, 30, 64, 150}[seed % 5],
                seed);
  });
  EXPECT_GT(counts.full, 50 * n_seeds / 60);
  EXPECT_GT(counts.moved, 2000 * n_seeds / 60);
  EXPECT_GT(counts.rolled_back, 100 * n_seeds / 60);
  EXPECT_GT(counts.forgotten, 5000 * n_seeds / 60);
  EXPECT_GT(counts.unseen, 50 * n_seeds / 60);
}

}  // namespace
}  // namespace tessera
