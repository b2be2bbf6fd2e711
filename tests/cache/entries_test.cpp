// Layers with a stride: where their entries are in tables and memory, and the operations refused because of them.
#include <gtest/gtest.h>

#include "tests/support/cache_support.h"

namespace tessera {
namespace {

using testing::cache_of;
using testing::positions_of;
using testing::range_of;
using testing::reserve_range;

constexpr KvLayerShape kUnbounded{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1};
constexpr KvLayerShape kStride4{.n_heads_kv = 1, .k_dim = 1, .window = 30, .stride = 4};
constexpr KvLayerShape kStride128{.n_heads_kv = 1, .k_dim = 1, .window = 30, .stride = 128};
constexpr KvLayerShape kRows{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1, .window = 8, .type = DType::f32};

using Cells = std::vector<std::vector<int32_t>>;  // by group

std::unique_ptr<KvCache> strided_cache(int64_t n_ctx, int32_t n_sequences) {
  return cache_of({.layers = {kStride4, kUnbounded, kStride128, kRows, kStride4},
                   .n_ctx = n_ctx,
                   .n_sequences = n_sequences,
                   .n_ubatch = 100});
}

TEST(KvEntries, LayersOfOneWindowAndStrideShareTwoGroups) {
  KvLayerShape other_window = kStride4, no_stride = kStride4;
  other_window.window = 31;
  no_stride.stride = 0;
  const auto cache =
      cache_of({.layers = {kStride4, kUnbounded, kStride128, kStride4, no_stride, other_window}, .n_ctx = 1000});
  ASSERT_EQ(cache->groups().size(), 8u);
  const std::vector<size_t> expected{1, 0, 3, 1, 5, 6};
  for (size_t layer = 0; layer < expected.size(); ++layer)
    EXPECT_EQ(cache->group_of(static_cast<int64_t>(layer)), expected[layer]);
  EXPECT_EQ(cache->entries_of(0), std::nullopt);
  EXPECT_EQ(cache->entries_of(1), 2u);
  EXPECT_EQ(cache->entries_of(2), std::nullopt);
  EXPECT_EQ(cache->entries_of(4), std::nullopt);
  EXPECT_EQ(cache->entries_of(5), std::nullopt);
  EXPECT_EQ(cache->entries_of(6), 7u);
  EXPECT_TRUE(cache->is_in_group(3, 1));
  EXPECT_TRUE(cache->is_in_group(3, 2));
  EXPECT_FALSE(cache->is_in_group(3, 7));
  EXPECT_EQ(cache->groups()[1].window(), 30);
  EXPECT_EQ(cache->groups()[1].stride(), 0);
  EXPECT_EQ(cache->groups()[2].window(), 0);
  EXPECT_EQ(cache->groups()[2].stride(), 4);
  EXPECT_TRUE(cache->has_entries());
  EXPECT_FALSE(cache_of({.layers = {no_stride}, .n_ctx = 1000})->has_entries());
}

TEST(KvEntries, TakeBlocksAfterThoseOfPositions) {
  // 1000 positions have 250 entries in 4 blocks, or 7 in one. The window holds 29 + 64 positions in at most 3 blocks,
  // and 5 with a micro-batch of 100.
  const auto cache = strided_cache(1000, 1);
  EXPECT_EQ(cache->groups()[1].n_blocks(), 3 + 5);
  EXPECT_EQ(cache->groups()[2].n_blocks(), 4);
  EXPECT_EQ(cache->groups()[4].n_blocks(), 1);
  EXPECT_EQ(cache->k(0).shape()[3], 3 + 5 + 4);
  EXPECT_EQ(cache->k(2).shape()[3], 3 + 5 + 1);
  EXPECT_EQ(cache->n_entry_blocks(0), 0);
  EXPECT_EQ(cache->n_entry_blocks(1), 4);
  EXPECT_EQ(cache->n_entry_blocks(3), 1);
  EXPECT_EQ(&cache->groups()[1].blocks(), &cache->groups()[2].blocks());
  EXPECT_EQ(&cache->groups()[1].valid(), &cache->groups()[2].valid());
  EXPECT_EQ(cache->groups()[1].blocks().shape()[0], 4 + 16);
  EXPECT_EQ(cache->groups()[0].blocks().shape()[0], 16);
  EXPECT_EQ(cache->allocated_bytes(), cache->bytes());
  // A context that is shorter than a stride has room for an entry that never comes.
  EXPECT_EQ(cache_of({.layers = {kStride128}, .n_ctx = 100})->n_entry_blocks(1), 1);
  // Every sequence may leave its last block of entries partly empty, and every mark may keep one.
  EXPECT_EQ(cache_of({.layers = {kStride4}, .n_ctx = 1000, .n_sequences = 3, .n_retained_tokens = 512, .n_marks = 5})
                ->groups()[2]
                .n_blocks(),
            (16 + 2 + 8 + 3) / 4 + 2 + 5);
}

TEST(KvEntries, ALayerHasATypeOfItsOwn) {
  const auto plan = [](KvLayerShape shape) {
    return KvCache::plan(testing::cpu_device(), {.layers = {shape}, .type_k = DType::q8_0, .n_ctx = 128}).value();
  };
  KvLayerShape shape{.n_heads_kv = 2, .k_dim = 32, .v_dim = 32};
  EXPECT_EQ(plan(shape)->token_bytes(0)->k, 2 * 34u);
  EXPECT_EQ(plan(shape)->token_bytes(0)->v, 2 * 32 * 2u);
  const size_t without = plan(shape)->bytes();
  shape.type = DType::f32;
  EXPECT_EQ(plan(shape)->token_bytes(0)->k, 2 * 32 * 4u);
  EXPECT_EQ(plan(shape)->token_bytes(0)->v, 2 * 32 * 4u);
  EXPECT_EQ(plan(shape)->k(0).dtype, DType::f32);
  EXPECT_EQ(plan(shape)->v(0).dtype, DType::f32);
  EXPECT_EQ(plan(shape)->bytes() - without, 128 * 2 * (32 * (4 + 2) - 34u));
}

TEST(KvEntries, RefuseAStrideThatCannotBe) {
  const auto plan = [](int64_t window, int64_t stride) {
    return KvCache::plan(testing::cpu_device(),
                         {.layers = {{.n_heads_kv = 1, .k_dim = 8, .window = window, .stride = stride}}, .n_ctx = 64});
  };
  EXPECT_ERROR(plan(8, -1), "entries for -1 tokens each");
  EXPECT_ERROR(plan(0, 4), "a layer with entries for 4 tokens each has no window");
  EXPECT_OK(plan(8, INT64_MAX));
}

TEST(KvEntries, ATokenThatCompletesAnEntryGetsItsCell) {
  const auto cache = strided_cache(1000, 2);
  Cells cells;
  std::vector<BatchToken> tokens = range_of(1, 0, 6);
  const std::vector<BatchToken> others = range_of(0, 0, 9);
  tokens.insert(tokens.end(), others.begin(), others.end());
  ASSERT_OK(cache->reserve(tokens, cells));
  const auto first = static_cast<int32_t>(cache->groups()[1].n_blocks() * 64);
  EXPECT_EQ(cells[2],
            (std::vector<int32_t>{-1, -1, -1, first, -1, -1, -1, -1, -1, first + 64, -1, -1, -1, first + 65, -1}));
  EXPECT_EQ(cells[4], std::vector<int32_t>(15, -1));
  ASSERT_OK(cache->commit());
  EXPECT_EQ(positions_of(*cache, 0, 2), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(positions_of(*cache, 1, 2), (std::vector<int32_t>{0}));
}

TEST(KvEntries, StayWhenTheWindowHasPassed) {
  const auto cache = strided_cache(1000, 1);
  for (int32_t p = 0; p < 900; p += 100) ASSERT_OK(reserve_range(*cache, 0, p, p + 100));
  EXPECT_GT(positions_of(*cache, 0, 1).front(), 700);
  EXPECT_EQ(positions_of(*cache, 0, 2).size(), 225u);
  EXPECT_EQ(positions_of(*cache, 0, 4), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}));
  ASSERT_OK(cache->remove(0, 896, 1000));
  EXPECT_EQ(positions_of(*cache, 0, 4).size(), 7u);
  ASSERT_OK(cache->remove(0, 895, 1000));
  EXPECT_EQ(positions_of(*cache, 0, 4).size(), 6u);
  EXPECT_EQ(positions_of(*cache, 0, 2).size(), 223u);
}

TEST(KvEntries, ASequenceGrowsAndShrinksAtItsEnd) {
  const auto cache = strided_cache(1000, 2);
  ASSERT_OK(reserve_range(*cache, 0, 0, 50));
  Cells cells;
  const auto refuses = [&](std::vector<BatchToken> tokens, const char* message) {
    EXPECT_ERROR(cache->reserve(tokens, cells), message);
    EXPECT_OK(cache->rollback());
    EXPECT_EQ(positions_of(*cache, 0).size(), 50u);
  };
  refuses(range_of(0, 51, 60), "positions 51 to 59 (9 tokens) of sequence 0, want all from 50 on");
  refuses(range_of(0, 49, 60), "want all from 50 on");
  refuses({{.position = 50}, {.position = 52}}, "positions 50 to 52 (2 tokens)");
  EXPECT_ERROR(cache->remove(0, 10, 20), "positions 10 to 19 of sequence 0 (it ends at 49): entries");
  EXPECT_ERROR(cache->remove(0, 0, 49), "cannot forget a part but their end");
  EXPECT_ERROR(cache->shift(0, 0, 50, 1), "shift of sequence 0 by 1: entries");
  EXPECT_OK(cache->shift(0, 0, 50, 0));
  EXPECT_ERROR(cache->copy(0, 1, 4, 50), "positions 4 to 49 of sequence 0 (it begins at 0): entries");
  EXPECT_EQ(positions_of(*cache, 0, 2).size(), 12u);
  EXPECT_EQ(cache->max_position(1), std::nullopt);
  EXPECT_OK(cache->remove(0, 20, 20));  // nothing
  EXPECT_OK(cache->remove(0, 60, 70));
  EXPECT_OK(cache->copy(0, 1, 60, 70));
  ASSERT_OK(cache->copy(0, 1, 0, 11));
  EXPECT_EQ(positions_of(*cache, 1, 2), (std::vector<int32_t>{0, 1}));
  EXPECT_ERROR(cache->copy(0, 1, 0, 50), "sequence 1 has positions already");
  EXPECT_OK(reserve_range(*cache, 1, 11, 12));
  EXPECT_EQ(positions_of(*cache, 1, 2).size(), 3u);
  EXPECT_OK(cache->remove(0, 0, 50));
  EXPECT_EQ(positions_of(*cache, 0, 2).size(), 0u);
  // Tokens of a micro-batch may be in any order.
  ASSERT_OK(cache->reserve(std::vector<BatchToken>{{.position = 1}, {.position = 3}, {.position = 0}, {.position = 2}},
                           cells));
  ASSERT_OK(cache->commit());
  EXPECT_EQ(positions_of(*cache, 0, 2), (std::vector<int32_t>{0}));
}

TEST(KvEntries, ReplaceWantsEntriesThatBelongToThePositions) {
  const auto cache = strided_cache(200, 1);
  ASSERT_OK(reserve_range(*cache, 0, 0, 10));
  std::vector<int32_t> all(130), entries(32);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  for (size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<int32_t>(i);
  Cells cells;
  const auto replace = [&](const Cells& positions) { return cache->replace(0, positions, cells); };
  EXPECT_ERROR(replace({all, {}, {}, {}, {0}, {}}), "0 entries for 4 positions each do not belong to 130 positions");
  EXPECT_ERROR(replace({all, {}, entries, {}, {}, {}}), "0 entries for 128 positions each");
  EXPECT_ERROR(replace({all, {}, entries, {}, {1}, {}}), "1 entries for 128 positions each");
  EXPECT_ERROR(replace({{0, 1, 3}, {}, {0}, {}, {}, {}}), "3 positions from 0 to 3: want none missing");
  EXPECT_EQ(positions_of(*cache, 0).size(), 10u);
  ASSERT_OK(replace({all, {129}, entries, {129}, {0}, {128, 129}}));
  EXPECT_EQ(cells[2].size(), 32u);
  EXPECT_EQ(positions_of(*cache, 0, 4), (std::vector<int32_t>{0}));
}

}  // namespace
}  // namespace tessera
