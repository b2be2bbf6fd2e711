#include "tessera/cache/paged.h"

#include <gtest/gtest.h>

#include "tests/support/cache_support.h"

namespace tessera {
namespace {

using testing::positions_of;
using testing::range_of;
using testing::reserve_range;
using testing::small_cache;
using testing::window_cache;

using Cells = std::vector<std::vector<int32_t>>;  // by group

TEST(KvCache, PlansExactlyTheBytesItAllocates) {
  const auto device = cpu::create_device("").value();
  // 3 blocks of 64 cells (one more for the second sequence); K of 16 floats and V of 8 halves per head, 2 heads.
  ASSERT_OK_AND_ASSIGN(const auto cache, KvCache::plan(*device, {.layers = {{.n_heads_kv = 2, .k_dim = 16, .v_dim = 8}},
                                                                 .type_k = DType::f32,
                                                                 .type_v = DType::f16,
                                                                 .n_ctx = 128,
                                                                 .n_sequences = 2}));
  const size_t tables = 64 + 64;  // 2 x 2 entries of 4 and of 8 bytes, each padded to 64
  EXPECT_EQ(cache->bytes(), 3u * 64 * 2 * 16 * 4 + 3u * 64 * 2 * 8 * 2 + tables);
  EXPECT_EQ(cache->allocated_bytes(), 0u);
  ASSERT_OK(cache->allocate());
  EXPECT_EQ(cache->allocated_bytes(), cache->bytes());
}

TEST(KvCache, RefusesSettingsOutOfRange) {
  const auto device = cpu::create_device("").value();
  const auto plan = [&](int64_t n_ctx, int32_t n_sequences, DType type_k, DType type_v, int64_t dim) {
    return KvCache::plan(*device, {.layers = {{.n_heads_kv = 1, .k_dim = dim, .v_dim = dim}},
                                   .type_k = type_k,
                                   .type_v = type_v,
                                   .n_ctx = n_ctx,
                                   .n_sequences = n_sequences});
  };
  EXPECT_ERROR(plan(0, 1, DType::f16, DType::f16, 8), "context size 0");
  EXPECT_ERROR(plan(kMaxContext + 1, 1, DType::f16, DType::f16, 8), "context size");
  EXPECT_ERROR(plan(64, 0, DType::f16, DType::f16, 8), "0 sequences");
  EXPECT_ERROR(plan(64, kMaxSequences + 1, DType::f16, DType::f16, 8), "sequences");
  EXPECT_ERROR(plan(64, 1, DType::q8_0, DType::f16, 8),
               "cpu cannot keep K of 8 elements per head as q8_0: want a multiple of 32");
  EXPECT_ERROR(plan(64, 1, DType::f16, DType::iq4_nl, 80),
               "V of 80 elements per head as iq4_nl: want a multiple of 32");
  EXPECT_ERROR(plan(64, 1, DType::f16, DType::i32, 8), "cpu cannot keep V of 8 elements per head as i32");
  EXPECT_OK(plan(kMaxContext, kMaxSequences, DType::f16, DType::f16, 8));
}

TEST(KvCache, ACellIsSlotOfABlockByPosition) {
  const auto cache = small_cache(256, 2);
  Cells cells;
  const std::vector<BatchToken> tokens{
      {.position = 70, .sequence = 1}, {.position = 3}, {.position = 71, .sequence = 1}};
  ASSERT_OK(cache->reserve(tokens, cells));
  EXPECT_EQ(cells, (Cells{{6, 64 + 3, 7}}));
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 2);
}

TEST(KvCache, ReserveIsAllOrNothing) {
  const auto cache = small_cache(128, 1);
  ASSERT_OK(reserve_range(*cache, 0, 0, 10));
  Cells cells;
  const auto refused = [&](std::vector<BatchToken> tokens, const char* why) {
    EXPECT_ERROR(cache->reserve(tokens, cells), why);
    EXPECT_EQ(cells, Cells(1));
    EXPECT_EQ(positions_of(*cache, 0).size(), 10u);
  };
  refused({{.position = 10}, {.position = 128}}, "position 128 of sequence 0, want 0 to 127");
  refused({{.position = 10}, {.position = -1}}, "position -1");
  refused({{.position = 10}, {.position = 0, .sequence = 1}}, "sequence 1, want 0 to 0");
  refused({{.position = 10}, {.position = 10}}, "position 10 of sequence 0 is stored already");
  refused({{.position = 100}, {.position = 5}}, "position 5 of sequence 0 is stored already");
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 1);
}

TEST(KvCache, AFullCacheSaysSoAndStaysAsItWas) {
  const auto cache = small_cache(64, 2);  // two blocks
  ASSERT_OK(reserve_range(*cache, 0, 0, 64));
  ASSERT_OK(reserve_range(*cache, 1, 0, 1));
  ASSERT_OK(cache->copy(1, 0, 5, 6));
  Cells cells;
  ASSERT_OK(cache->remove(1, 0, 64));
  const auto big = small_cache(128, 2);  // three blocks
  ASSERT_OK(reserve_range(*big, 0, 0, 128));
  const std::vector<BatchToken> tokens{{.position = 0, .sequence = 1}, {.position = 64, .sequence = 1}};
  const auto full = big->reserve(tokens, cells);
  EXPECT_ERROR(full, "the KV cache is full: 2 blocks of 64 tokens needed, 1 of 3 free");
  EXPECT_EQ(full.error().code(), ErrorCode::limit);
  EXPECT_TRUE(positions_of(*big, 1).empty());
  EXPECT_OK(reserve_range(*big, 1, 0, 64));
}

TEST(KvCache, RemoveFreesEmptyBlocks) {
  const auto cache = small_cache(256, 1);
  ASSERT_OK(reserve_range(*cache, 0, 0, 200));
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 4);
  ASSERT_OK(cache->remove(0, 60, 130));
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 3);
  EXPECT_EQ(cache->min_position(0), 0);
  EXPECT_EQ(cache->max_position(0), 199);
  ASSERT_OK(cache->remove(0, INT32_MIN, INT32_MAX));
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 0);
  EXPECT_EQ(cache->min_position(0), std::nullopt);
  EXPECT_EQ(cache->max_position(0), std::nullopt);
}

TEST(KvCache, CopySharesBlocksUntilOneWrites) {
  const auto cache = small_cache(128, 3);
  ASSERT_OK(reserve_range(*cache, 0, 0, 70));
  ASSERT_OK_AND_ASSIGN(const std::vector<CellMoves> moves, cache->copy(0, 1, 0, 70));
  EXPECT_TRUE(moves[0].from.empty());
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 2);
  EXPECT_EQ(cache->cells(0)->cells, cache->cells(1)->cells);
  ASSERT_OK(reserve_range(*cache, 1, 70, 71));
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 3);
  EXPECT_EQ(cache->cells(0)->cells[0], cache->cells(1)->cells[0]);
  EXPECT_NE(cache->cells(0)->cells[64], cache->cells(1)->cells[64]);
}

// The last sequence of those that share a block needs no new block.
TEST(KvCache, AllSharersMayWriteInOneBatchWhereOneBlockIsFreePerOther) {
  const auto cache = small_cache(64, 4);  // 4 blocks
  ASSERT_OK(reserve_range(*cache, 0, 0, 10));
  std::vector<BatchToken> tokens{{.position = 10}};
  for (const int32_t to : {1, 2, 3}) {
    ASSERT_OK(cache->copy(0, to, 0, 10));
    tokens.push_back({.position = 10, .sequence = to});
  }
  Cells cells;
  ASSERT_OK(cache->reserve(tokens, cells));
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 4);
}

TEST(KvCache, CopyOntoTheSameSharedBlockTakesNone) {
  const auto cache = small_cache(128, 2);  // three blocks
  ASSERT_OK(reserve_range(*cache, 0, 0, 128));
  ASSERT_OK(cache->copy(0, 1, 0, 10));
  ASSERT_OK(reserve_range(*cache, 1, 64, 65));  // the last free one
  ASSERT_OK_AND_ASSIGN(const std::vector<CellMoves> moves, cache->copy(0, 1, 10, 64));
  EXPECT_TRUE(moves[0].from.empty());
  EXPECT_EQ(positions_of(*cache, 1).size(), 65u);
}

TEST(KvCache, CopyIntoABlockOfItsOwnMovesCells) {
  const auto cache = small_cache(128, 2);
  ASSERT_OK(reserve_range(*cache, 0, 0, 10));
  ASSERT_OK(reserve_range(*cache, 1, 20, 21));
  ASSERT_OK_AND_ASSIGN(const std::vector<CellMoves> moves, cache->copy(0, 1, 8, 30));
  EXPECT_EQ(moves[0].from, (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(moves[0].to, (std::vector<int32_t>{64 + 8, 64 + 9}));
  EXPECT_EQ(moves[0].delta, 0);
}

TEST(KvCache, CopyRefusesPositionsThatAreThere) {
  const auto cache = small_cache(128, 2);
  ASSERT_OK(reserve_range(*cache, 0, 0, 10));
  ASSERT_OK(reserve_range(*cache, 1, 9, 12));
  EXPECT_ERROR(cache->copy(0, 1, 0, 10), "position 9 of sequence 1 is stored already");
  EXPECT_ERROR(cache->copy(0, 2, 0, 10), "sequence 2");
  EXPECT_ERROR(cache->copy(-1, 0, 0, 10), "sequence -1");
}

TEST(KvCache, ShiftRefusesToLeaveTheContextOrToMeetAPosition) {
  const auto cache = small_cache(128, 1);
  ASSERT_OK(reserve_range(*cache, 0, 10, 20));
  EXPECT_ERROR(cache->shift(0, 0, 128, -11), "shift by -11: position 10 of sequence 0 would leave 0 to 127");
  EXPECT_ERROR(cache->shift(0, 0, 128, 109), "position 19 of sequence 0 would leave");
  EXPECT_ERROR(cache->shift(0, 0, 128, INT32_MAX), "would leave");
  EXPECT_ERROR(cache->shift(0, 0, 128, INT32_MIN), "would leave");
  EXPECT_ERROR(cache->shift(0, 15, 128, -3), "position 15 of sequence 0 would meet position 12");
  EXPECT_EQ(positions_of(*cache, 0).front(), 10);
}

TEST(KvCache, OperationsRefuseSequencesThatAreNot) {
  const auto cache = small_cache(64, 2);
  for (const int32_t bad : {-1, 2, INT32_MAX}) {
    EXPECT_ERROR(cache->remove(bad, 0, 1), "want 0 to 1");
    EXPECT_ERROR(cache->keep(bad), "want 0 to 1");
    EXPECT_ERROR(cache->shift(bad, 0, 1, 1), "want 0 to 1");
    EXPECT_ERROR(cache->cells(bad), "want 0 to 1");
    EXPECT_EQ(cache->min_position(bad), std::nullopt);
    EXPECT_EQ(cache->max_position(bad), std::nullopt);
  }
}

TEST(BlockPool, TakesTheLowestFreeBlock) {
  BlockPool pool(3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  pool.release(0);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.n_free(), 1);
}

TEST(BlockPool, ASharedBlockIsFreeWhenTheLastReleasesIt) {
  BlockPool pool(1);
  const int32_t block = pool.take();
  EXPECT_FALSE(pool.is_shared(block));
  pool.share(block);
  EXPECT_TRUE(pool.is_shared(block));
  pool.release(block);
  EXPECT_EQ(pool.n_free(), 0);
  pool.release(block);
  EXPECT_EQ(pool.n_free(), 1);
}

}  // namespace
}  // namespace tessera
