// Random operations on a paged cache, beside a model that is a map from position to a number per sequence. Every stored
// token gets a number of its own, written to its cell; after each step every sequence must read its own numbers.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tessera/base/rng.h"
#include "tests/support/cache_support.h"

namespace tessera {
namespace {

using Model = std::vector<std::map<int32_t, float>>;  // per sequence: position > what its cell holds

class Pair {
 public:
  Pair(int64_t n_ctx, int32_t n_sequences, uint64_t seed)
      : n_ctx_(static_cast<int32_t>(n_ctx)),
        n_sequences_(n_sequences),
        cache_(testing::small_cache(n_ctx, n_sequences)),
        model_(static_cast<size_t>(n_sequences)),
        rng_(seed) {}

  void step() {
    const int32_t s = below(n_sequences_);
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        return reserve();
      case 3:
        return remove(s);
      case 4:
      case 5:
        return copy(s, below(n_sequences_));
      case 6:
        return shift(s);
      default:
        return below(10) == 0 ? keep(s) : remove(s);
    }
  }

  // The tables say what the model says, in the cache's own view and in what graphs see.
  void check() {
    std::map<int32_t, std::set<std::pair<int32_t, int64_t>>> owners;  // block > who reads it
    std::vector<int32_t> blocks(static_cast<size_t>(cache_->blocks().shape().n_elements()));
    std::vector<int64_t> valid(blocks.size());
    ASSERT_OK(cache_->blocks().buffer->get(cache_->blocks(), 0, std::as_writable_bytes(std::span(blocks))));
    ASSERT_OK(cache_->valid().buffer->get(cache_->valid(), 0, std::as_writable_bytes(std::span(valid))));
    const int64_t n_max_blocks = cache_->blocks().shape()[0];
    for (int32_t s = 0; s < n_sequences_; ++s) {
      const auto& expected = model_[static_cast<size_t>(s)];
      ASSERT_OK_AND_ASSIGN(const KvCache::Cells cells, cache_->cells(s));
      ASSERT_EQ(cells.positions.size(), expected.size());
      size_t i = 0;
      for (const auto& [position, number] : expected) {
        ASSERT_EQ(cells.positions[i], position);
        const auto at = static_cast<size_t>(s * n_max_blocks + position / 64);
        ASSERT_EQ(cells.cells[i], blocks[at] * 64 + position % 64);
        ASSERT_EQ(cells_of_k()[cells.cells[i]], number) << "sequence " << s << " position " << position;
        ++i;
      }
      ASSERT_EQ(cache_->min_position(s), expected.empty() ? std::nullopt : std::optional(expected.begin()->first));
      ASSERT_EQ(cache_->max_position(s), expected.empty() ? std::nullopt : std::optional(expected.rbegin()->first));
      for (int64_t logical = 0; logical < n_max_blocks; ++logical) {
        const auto at = static_cast<size_t>(s * n_max_blocks + logical);
        ASSERT_EQ(blocks[at] < 0, valid[at] == 0);
        if (blocks[at] >= 0) owners[blocks[at]].insert({s, logical});
        for (int32_t slot = 0; slot < 64; ++slot)
          ASSERT_EQ(valid[at] >> slot & 1, expected.contains(static_cast<int32_t>(logical) * 64 + slot) ? 1 : 0);
      }
    }
    // Used and free blocks are all blocks: none is lost, none is counted twice. Sharers agree on the logical block.
    ASSERT_EQ(cache_->n_used_blocks(), static_cast<int64_t>(owners.size()));
    for (const auto& [block, readers] : owners)
      for (const auto& reader : readers) ASSERT_EQ(reader.second, readers.begin()->second) << "block " << block;
  }

  int n_full() const { return n_full_; }
  int n_moved() const { return n_moved_; }

 private:
  int32_t below(int32_t n) { return static_cast<int32_t>(rng_.next_u32() % static_cast<uint32_t>(n)); }
  float* cells_of_k() { return reinterpret_cast<float*>(cache_->k(0).buffer->base() + cache_->k(0).offset); }

  void reserve() {
    std::vector<BatchToken> tokens;
    std::set<std::pair<int32_t, int32_t>> seen;
    bool is_new = true;
    const int32_t n_parts = 1 + below(3);
    for (int32_t part = 0; part < n_parts; ++part) {
      const int32_t s = below(n_sequences_), begin = below(n_ctx_), n = 1 + below(90);
      for (int32_t p = begin; p < std::min(begin + n, n_ctx_); ++p) {
        tokens.push_back({.position = p, .sequence = s});
        is_new &= seen.emplace(s, p).second && !model_[static_cast<size_t>(s)].contains(p);
      }
    }
    std::vector<int32_t> cells;
    const auto done = cache_->reserve(tokens, cells);
    if (!done) {
      ASSERT_TRUE(!is_new || done.error().code() == ErrorCode::limit) << done.error().message();
      n_full_ += done.error().code() == ErrorCode::limit;
      return;
    }
    ASSERT_TRUE(is_new);
    for (size_t i = 0; i < tokens.size(); ++i) {
      model_[static_cast<size_t>(tokens[i].sequence)][tokens[i].position] = ++next_;
      cells_of_k()[cells[i]] = next_;
    }
  }

  void remove(int32_t s) {
    const int32_t begin = below(n_ctx_) - 5, end = begin + below(n_ctx_);
    ASSERT_OK(cache_->remove(s, begin, end));
    std::erase_if(model_[static_cast<size_t>(s)], [&](const auto& e) { return e.first >= begin && e.first < end; });
  }

  void keep(int32_t s) {
    ASSERT_OK(cache_->keep(s));
    for (int32_t other = 0; other < n_sequences_; ++other)
      if (other != s) model_[static_cast<size_t>(other)].clear();
  }

  void copy(int32_t from, int32_t to) {
    const int32_t begin = below(n_ctx_), end = begin + below(n_ctx_);
    auto& target = model_[static_cast<size_t>(to)];
    std::map<int32_t, float> added;
    bool meets = false;
    for (const auto& [position, number] : model_[static_cast<size_t>(from)]) {
      if (position < begin || position >= end || from == to) continue;
      added[position] = number;
      meets |= target.contains(position);
    }
    const auto moves = cache_->copy(from, to, begin, end);
    if (!moves) {
      ASSERT_TRUE(meets || moves.error().code() == ErrorCode::limit) << moves.error().message();
      return;
    }
    ASSERT_FALSE(meets);
    apply(*moves);
    target.insert(added.begin(), added.end());
  }

  void shift(int32_t s) {
    const int32_t begin = below(n_ctx_), end = begin + below(n_ctx_), delta = below(140) - 70;
    auto& sequence = model_[static_cast<size_t>(s)];
    std::map<int32_t, float> next;
    bool is_possible = true;
    for (const auto& [position, number] : sequence) {
      const bool moves = position >= begin && position < end;
      const int32_t target = position + (moves ? delta : 0);
      is_possible &= target >= 0 && target < n_ctx_ && next.emplace(target, number).second;
    }
    const auto moves = cache_->shift(s, begin, end, delta);
    if (!moves) {
      ASSERT_TRUE(!is_possible || moves.error().code() == ErrorCode::limit) << moves.error().message();
      return;
    }
    ASSERT_TRUE(is_possible);
    apply(*moves);
    sequence = next;
  }

  // In chunks of 7, each read before it is written.
  void apply(const CellMoves& moves) {
    ASSERT_EQ(moves.from.size(), moves.to.size());
    for (size_t begin = 0; begin < moves.from.size(); begin += 7) {
      const size_t end = std::min(begin + 7, moves.from.size());
      std::vector<float> staged;
      for (size_t i = begin; i < end; ++i) staged.push_back(cells_of_k()[moves.from[i]]);
      for (size_t i = begin; i < end; ++i) cells_of_k()[moves.to[i]] = staged[i - begin];
    }
    n_moved_ += static_cast<int>(moves.from.size());
  }

  int32_t n_ctx_, n_sequences_;
  std::unique_ptr<KvCache> cache_;
  Model model_;
  Rng rng_;
  float next_ = 0;
  int n_full_ = 0, n_moved_ = 0;
};

TEST(KvCache, EverySequenceReadsItsOwnTokensAfterAnyOperations) {
  int n_full = 0, n_moved = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Pair pair(200 + static_cast<int64_t>(seed), seed % 5 == 0 ? 1 : 4, seed);
    for (int i = 0; i < 150; ++i) {
      pair.step();
      pair.check();
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed << ", step " << i;
    }
    n_full += pair.n_full();
    n_moved += pair.n_moved();
  }
  EXPECT_GT(n_full, 50);  // the cases that matter came up
  EXPECT_GT(n_moved, 2000);
}

}  // namespace
}  // namespace tessera
