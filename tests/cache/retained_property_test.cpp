// Random operations on sequences and retained blocks. Every stored token has a unique number in its cell of each group.
// Sequences read their own numbers whatever happens to the sequences with which they share blocks, and each block is
// counted as used, idle or free.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "tessera/base/rng.h"
#include "tests/support/cache_support.h"

namespace tessera {
namespace {

class RetainedSchedule {
 public:
  RetainedSchedule(int64_t window, uint64_t seed) : rng_(seed) {
    KvCacheConfig config{.layers = {{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1}},
                         .n_ctx = kContext,
                         .n_sequences = 3,
                         .n_ubatch = 90,
                         .n_retained_tokens = 64 * below(8),
                         .n_marks = below(3)};
    if (window > 0) config.layers.push_back({.n_heads_kv = 1, .k_dim = 1, .window = window});
    cache_ = testing::cache_of(config);
  }

  void step() {
    const int32_t s = below(3);
    switch (below(6)) {
      case 0:
        return clear(s);
      case 1:
        return retain(s);
      case 2:
        return attach(s);
      case 3:
        return release();
      default:
        return append(s);
    }
  }

  void check() const {
    for (size_t g = 0; g < cache_->groups().size(); ++g) {
      const KvGroup& group = cache_->groups()[g];
      std::set<int32_t> used, retained;
      for (int32_t s = 0; s < 3; ++s) {
        ASSERT_OK_AND_ASSIGN(const KvCache::Cells held, cache_->cells(s, g));
        std::set<int32_t> own;
        for (size_t i = 0; i < held.cells.size(); ++i) {
          ASSERT_EQ(cells_of(g)[held.cells[i]], numbers_[to_size(s)][to_size(held.positions[i])]);
          own.insert(held.cells[i] / 64);
        }
        if (g == 0) {
          ASSERT_EQ(held.cells.size(), numbers_[to_size(s)].size());
        }
        ASSERT_EQ(group.n_blocks_of(s), std::ssize(own));
        used.merge(own);
      }
      for (const Retained& r : retained_) {
        const std::vector<int32_t>& of_group = g == 0 ? r.blocks : r.windows[g];
        retained.insert(of_group.begin(), of_group.end());
      }
      std::erase_if(retained, [&](int32_t block) { return used.contains(block); });
      ASSERT_EQ(group.n_idle_blocks(), std::ssize(retained));
      for (const int32_t block : retained) ASSERT_TRUE(group.is_idle(block));
      ASSERT_EQ(group.n_free_blocks(), group.n_blocks() - std::ssize(used) - std::ssize(retained));
    }
  }

  void finish() {
    for (int32_t s = 0; s < 3; ++s) clear(s);
    while (!retained_.empty()) release();
    for (const KvGroup& group : cache_->groups()) EXPECT_EQ(group.n_used_blocks(), 0);
  }

  int n_attached = 0, n_full = 0;

 private:
  static constexpr int32_t kContext = 500;
  struct Retained {
    std::vector<int32_t> blocks;
    KvCache::WindowBlocks windows;
    std::vector<float> numbers;
  };

  int32_t below(int32_t n) { return static_cast<int32_t>(rng_.next_u32() % static_cast<uint32_t>(n)); }
  float* cells_of(size_t group) const {
    const Tensor& k = cache_->k(static_cast<int64_t>(group));
    return reinterpret_cast<float*>(k.buffer->base() + k.offset);
  }

  void append(int32_t s) {
    std::vector<float>& numbers = numbers_[to_size(s)];
    const auto begin = static_cast<int32_t>(numbers.size());
    const std::vector<BatchToken> tokens = testing::range_of(s, begin, std::min(begin + 1 + below(90), kContext));
    const std::vector<int64_t> needed = cache_->blocks_to_decode(tokens);
    bool fits = true;
    for (size_t g = 0; g < needed.size(); ++g) fits = fits && needed[g] <= cache_->groups()[g].n_free_blocks();
    std::vector<std::vector<int32_t>> cells;
    const auto done = cache_->reserve(tokens, cells);
    ASSERT_EQ(done.has_value(), fits);
    if (!fits) return void(++n_full);
    for (size_t i = 0; i < tokens.size(); ++i) {
      numbers.push_back(++next_);
      for (size_t g = 0; g < cells.size(); ++g) cells_of(g)[cells[g][i]] = next_;
    }
    const bool fails = below(5) == 0;
    ASSERT_OK(fails ? cache_->rollback() : cache_->commit());
    if (fails) numbers.resize(to_size(begin));
  }

  void clear(int32_t s) {
    ASSERT_OK(cache_->remove(s, 0, kContext));
    numbers_[to_size(s)].clear();
  }

  void retain(int32_t s) {
    const std::vector<float>& numbers = numbers_[to_size(s)];
    if (numbers.empty()) return;
    Retained retained{.blocks = {}, .windows = {}, .numbers = numbers};
    for (size_t logical = 0; 64 * logical < numbers.size(); ++logical) {
      ASSERT_OK_AND_ASSIGN(const int32_t block, cache_->retain_block(s, static_cast<int64_t>(logical)));
      retained.blocks.push_back(block);
    }
    ASSERT_OK_AND_ASSIGN(retained.windows, cache_->retain_windows(s));
    retained_.push_back(std::move(retained));
  }

  // Only a part, if no group has a window.
  void attach(int32_t s) {
    if (retained_.empty() || !numbers_[to_size(s)].empty()) return;
    const Retained& from = retained_[rng_.next_u32() % retained_.size()];
    const auto all = static_cast<int32_t>(from.numbers.size());
    const int32_t n = cache_->has_windows() ? all : 1 + below(all);
    const auto blocks = std::span(from.blocks).first(to_size((n + 63) / 64));
    ASSERT_OK(cache_->attach(s, blocks, from.windows, n));
    numbers_[to_size(s)].assign(from.numbers.begin(), from.numbers.begin() + n);
    ++n_attached;
  }

  void release() {
    if (retained_.empty()) return;
    const auto at = retained_.begin() + below(static_cast<int32_t>(retained_.size()));
    for (const int32_t block : at->blocks) cache_->release_block(block);
    cache_->release_windows(at->windows);
    retained_.erase(at);
  }

  Rng rng_;
  std::unique_ptr<KvCache> cache_;
  std::array<std::vector<float>, 3> numbers_;  // by sequence and position
  std::vector<Retained> retained_;
  float next_ = 0;
};

TEST(RetainedBlocks, SequencesReadTheirOwnTokensAfterAnyOperations) {
  int n_attached = 0, n_full = 0;
  const int n_schedules = testing::all_or_few(200, 30);
  for (int seed = 0; seed < n_schedules; ++seed) {
    RetainedSchedule schedule(std::array{0, 1, 30, 65}[to_size(seed % 4)], static_cast<uint64_t>(seed));
    for (int i = 0; i < 150 && !::testing::Test::HasFailure(); ++i) {
      schedule.step();
      schedule.check();
    }
    schedule.finish();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    n_attached += schedule.n_attached;
    n_full += schedule.n_full;
  }
  EXPECT_GT(n_attached, 2 * n_schedules);  // the relevant cases occurred
  EXPECT_GT(n_full, n_schedules);
}

}  // namespace
}  // namespace tessera
