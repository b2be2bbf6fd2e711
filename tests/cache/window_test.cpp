// Layers with an attention window: the positions that they hold and forget, and the operations refused as a result.
#include <gtest/gtest.h>

#include "tests/support/cache_support.h"

namespace tessera {
namespace {

using testing::positions_of;
using testing::range_of;
using testing::reserve_range;
using testing::window_cache;

using Cells = std::vector<std::vector<int32_t>>;  // by group

TEST(KvWindow, LayersOfOneWindowShareAGroup) {
  const auto cache = testing::cache_of({.layers = {{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1, .window = 30},
                                                   {.n_heads_kv = 1, .k_dim = 1, .v_dim = 1},
                                                   {.n_heads_kv = 1, .k_dim = 1, .window = 7},
                                                   {.n_heads_kv = 1, .k_dim = 1, .v_dim = 1, .window = 30}},
                                        .n_ctx = 100});
  ASSERT_EQ(cache->groups().size(), 3u);
  EXPECT_EQ(cache->groups()[0].window(), 0);
  EXPECT_EQ(cache->groups()[1].window(), 30);
  EXPECT_EQ(cache->groups()[2].window(), 7);
  const std::vector<size_t> expected{1, 0, 2, 1};
  for (size_t layer = 0; layer < 4; ++layer) EXPECT_EQ(cache->group_of(static_cast<int64_t>(layer)), expected[layer]);
  EXPECT_TRUE(cache->has_v(0));
  EXPECT_FALSE(cache->has_v(2));
}

TEST(KvWindow, AWindowTakesMemoryForItselfNotForTheContext) {
  // A sequence holds 100 - 1 + 64 positions, in up to 4 blocks, or 5 with 32 more of a micro-batch. A block is 64
  // floats of K. The full layer has V too. Tables: 12 bytes per logical block of each group, padded to 64 each.
  const auto bytes = [](int64_t n_blocks) { return static_cast<size_t>(n_blocks * 64 * 4); };
  const auto cache = window_cache(6400, 1, 100, 32);
  EXPECT_EQ(cache->groups()[1].n_blocks(), 9);
  EXPECT_EQ(cache->bytes(), 2 * bytes(100) + bytes(9) + 2 * (448 + 832));
  EXPECT_EQ(window_cache(6400, 3, 100, 32)->groups()[1].n_blocks(), 27);
  // Never more than without a window.
  EXPECT_EQ(window_cache(256, 1, 100, 32)->groups()[1].n_blocks(), 4);
  EXPECT_EQ(window_cache(256, 1, INT64_MAX, 32)->groups()[1].n_blocks(), 4);
}

TEST(KvWindow, RefusesANegativeWindow) {
  const auto plan = KvCache::plan(testing::cpu_device(),
                                  {.layers = {{.n_heads_kv = 1, .k_dim = 8, .v_dim = 8, .window = -1}}, .n_ctx = 64});
  EXPECT_ERROR(plan, "attention window -1");
}

TEST(KvWindow, ForgetsBlocksThatARollbackDoesNotSee) {
  const auto cache = window_cache(1000, 1, 30, 500);
  // From 1 + 64 + 64 + 29 stored positions on, a sequence does not attend to the first block after a rollback by 64.
  ASSERT_OK(reserve_range(*cache, 0, 0, 156));
  EXPECT_EQ(positions_of(*cache, 0, 1).front(), 0);
  EXPECT_EQ(cache->lowest_rollback(0), 0);
  ASSERT_OK(reserve_range(*cache, 0, 156, 157));
  EXPECT_EQ(positions_of(*cache, 0, 1).front(), 64);
  EXPECT_EQ(positions_of(*cache, 0, 1).size(), 157u - 64);
  EXPECT_EQ(positions_of(*cache, 0, 0).size(), 157u);
  EXPECT_EQ(cache->lowest_rollback(0), 63 + 30);
  EXPECT_EQ(cache->min_position(0), 0);
  EXPECT_EQ(cache->lowest_rollback(1), std::nullopt);
}

TEST(KvWindow, GoesBackNoFurtherThanItsWindowIsHeld) {
  const auto cache = window_cache(1000, 2, 30, 500);
  ASSERT_OK(reserve_range(*cache, 0, 0, 300));
  const int32_t lowest = *cache->lowest_rollback(0);
  EXPECT_LE(lowest, 300 - 64);
  EXPECT_ERROR(
      cache->remove(0, lowest - 1, 1000),
      "remove: position 220 of sequence 0 would see positions that layers with a window of 30 no longer hold; the "
      "lowest it can go back to is 221");
  EXPECT_EQ(cache->max_position(0), 299);
  ASSERT_OK(cache->remove(0, lowest, 1000));
  EXPECT_OK(reserve_range(*cache, 0, lowest, 300));
  // All positions may be removed, and so may positions that others follow.
  EXPECT_OK(cache->remove(0, 5, 100));
  EXPECT_ERROR(reserve_range(*cache, 0, 5, 6), "position 5 of sequence 0 would see positions");
  EXPECT_OK(cache->remove(0, 0, 1000));
  EXPECT_EQ(cache->lowest_rollback(0), 0);
  EXPECT_OK(reserve_range(*cache, 0, 0, 10));
}

// Batches of many micro-batches, alternating between all sequences, at every alignment. Each fails once just before its
// end.
TEST(KvWindow, HasRoomForBatchesOfAnyLengthAndForTheirFailure) {
  for (const int64_t window : {1, 2, 30, 64, 65, 128})
    for (const int32_t n_ubatch : {1, 7, 64, 100}) {
      constexpr int32_t kContext = 9000, kSequences = 3;
      const auto cache = window_cache(kContext, kSequences, window, n_ubatch);
      std::vector<int32_t> ends(kSequences, 0);
      Cells cells;
      for (int32_t i = 0; i < 30; ++i) {
        const int32_t n = (i * 37) % 130 + 1;  // tokens per sequence, in alternating micro-batches
        const auto all = [&]() -> Result<> {
          for (int32_t begin = 0; begin < n; begin += n_ubatch)
            for (int32_t s = 0; s < kSequences; ++s) {
              const int32_t at = ends[static_cast<size_t>(s)];
              TESSERA_TRY(cache->reserve(range_of(s, at + begin, at + std::min(n, begin + n_ubatch)), cells));
            }
          return {};
        };
        std::vector<std::vector<int32_t>> before, after;
        for (int32_t s = 0; s < kSequences; ++s) before.push_back(cache->cells(s, 1)->cells);
        ASSERT_OK(all());
        ASSERT_OK(cache->rollback());
        for (int32_t s = 0; s < kSequences; ++s) after.push_back(cache->cells(s, 1)->cells);
        ASSERT_EQ(after, before);
        ASSERT_OK(all());
        ASSERT_OK(cache->commit());
        for (int32_t& end : ends) end += n + (end == 0 ? i : 0);
      }
      EXPECT_LE(cache->groups()[1].n_used_blocks(), kSequences * ((window + 62) / 64 + 2));
    }
}

// The held positions do not depend on the split into batches.
TEST(KvWindow, HoldsTheSameForAnySplit) {
  const auto whole = window_cache(1000, 1, 100, 1000);
  ASSERT_OK(reserve_range(*whole, 0, 0, 900));
  for (const int32_t step : {1, 13, 64, 200}) {
    const auto cache = window_cache(1000, 1, 100, 200);
    for (int32_t p = 0; p < 900; p += step) ASSERT_OK(reserve_range(*cache, 0, p, std::min(p + step, 900)));
    EXPECT_EQ(positions_of(*cache, 0, 1), positions_of(*whole, 0, 1)) << step;
  }
}

TEST(KvWindow, ACopyGoesOnWhereItsWindowIsHeld) {
  const auto cache = window_cache(1000, 2, 30, 500);
  ASSERT_OK(reserve_range(*cache, 0, 0, 300));
  EXPECT_ERROR(cache->copy(0, 1, 0, 200), "copy: position 200 of sequence 0 would see positions");
  EXPECT_EQ(cache->max_position(1), std::nullopt);
  ASSERT_OK(cache->copy(0, 1, 0, 250));
  EXPECT_EQ(cache->lowest_rollback(1), cache->lowest_rollback(0));
  EXPECT_OK(reserve_range(*cache, 1, 250, 251));
  EXPECT_ERROR(cache->remove(1, 200, 1000), "lowest it can go back to is 221");
}

TEST(KvWindow, AShiftMovesTheWindowAlong) {
  const auto cache = window_cache(1000, 1, 30, 500);
  ASSERT_OK(reserve_range(*cache, 0, 0, 300));
  ASSERT_OK(cache->remove(0, 4, 104));
  ASSERT_OK(cache->shift(0, 104, 1000, -100));
  EXPECT_EQ(cache->max_position(0), 199);
  EXPECT_EQ(cache->lowest_rollback(0), 121);
  EXPECT_EQ(positions_of(*cache, 0, 1).front(), 92);
  EXPECT_OK(reserve_range(*cache, 0, 200, 201));
  // With a smaller distance, the window would reach the first four positions again, which are forgotten.
  ASSERT_OK(cache->remove(0, 4, 190));
  EXPECT_ERROR(cache->shift(0, 190, 1000, -186), "shift: position 15 of sequence 0 would see positions");
  EXPECT_EQ(cache->max_position(0), 200);
}

TEST(KvWindow, ReplaceWantsWhatCanBe) {
  const auto cache = window_cache(200, 2, 30, 64);
  ASSERT_OK(reserve_range(*cache, 0, 0, 10));
  Cells cells;
  const auto replace = [&](const Cells& positions) { return cache->replace(0, positions, cells); };
  EXPECT_ERROR(replace({{1, 2, 2}, {}}), "position 2 after 2");
  EXPECT_ERROR(replace({{1, 2, 3}, {4}}), "position 4 is held but not stored");
  EXPECT_ERROR(replace({{1, 2, 200}, {}}), "position 200 of sequence 0");
  EXPECT_ERROR(replace({{-1, 2}, {}}), "position -1");
  EXPECT_ERROR(cache->replace(2, Cells{{}, {}}, cells), "sequence 2");
  EXPECT_EQ(positions_of(*cache, 0).size(), 10u);
  ASSERT_OK(replace({{5, 6, 70}, {6, 70}}));
  EXPECT_EQ(positions_of(*cache, 0), (std::vector<int32_t>{5, 6, 70}));
  EXPECT_EQ(positions_of(*cache, 0, 1), (std::vector<int32_t>{6, 70}));
  EXPECT_EQ(cache->lowest_rollback(0), 35);
  EXPECT_EQ(cells[1].size(), 2u);
}

}  // namespace
}  // namespace tessera
