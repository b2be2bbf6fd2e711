// Retained blocks and marks: references that stay when a sequence goes, and from which an empty sequence continues.
#include <gtest/gtest.h>

#include "tessera/cache/sequence_memory.h"
#include "tests/support/cache_support.h"

namespace tessera {
namespace {

using testing::cache_of;
using testing::cpu_device;
using testing::positions_of;
using testing::range_of;
using testing::reserve_range;

constexpr int32_t kAll = 1 << 20;
const KvCache::WindowBlocks kNoWindows;

/// Like small_cache() and window_cache(), with room for retained blocks and marks.
std::unique_ptr<KvCache> roomy_cache(int64_t window, int32_t n_sequences = 2) {
  KvCacheConfig config{.layers = {{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1}},
                       .n_ctx = 512,
                       .n_sequences = n_sequences,
                       .n_ubatch = 64,
                       .n_retained_tokens = 1024,
                       .n_marks = 3};
  if (window > 0) config.layers.push_back({.n_heads_kv = 1, .k_dim = 1, .window = window});
  return cache_of(config);
}

std::vector<int32_t> retain_blocks(KvCache& cache, int32_t sequence, int64_t n) {
  std::vector<int32_t> blocks;
  for (int64_t logical = 0; logical < n; ++logical) blocks.push_back(cache.retain_block(sequence, logical).value());
  return blocks;
}

TEST(BlockPool, CountsBlocksThatOnlyRetainedReferencesKeep) {
  BlockPool pool(3);
  const int32_t block = pool.take();
  pool.retain(block);
  EXPECT_EQ(pool.n_idle(), 0);
  pool.release(block);
  EXPECT_EQ(pool.n_idle(), 1);
  EXPECT_TRUE(pool.is_idle(block));
  pool.retain(block);
  EXPECT_EQ(pool.n_idle(), 1);
  pool.share(block);
  EXPECT_EQ(pool.n_idle(), 0);
  pool.release_retained(block);
  pool.release(block);
  EXPECT_EQ(pool.n_idle(), 1);
  EXPECT_EQ(pool.n_free(), 2);
  pool.release_retained(block);
  EXPECT_EQ(pool.n_idle(), 0);
  EXPECT_EQ(pool.n_free(), 3);
  EXPECT_FALSE(pool.is_retained(block));
}

TEST(RetainedBlocks, TakeRoomBeyondTheContext) {
  constexpr int64_t kBlocks = 512 / 64 + 1 + 1024 / 64;
  EXPECT_EQ(roomy_cache(0)->groups()[0].n_blocks(), kBlocks);
  const auto windows = roomy_cache(65);
  // A sequence needs 128 positions, and as many and a micro-batch while it decodes. A mark needs 64.
  EXPECT_EQ(windows->groups()[1].n_blocks(), 2 * ((2 + 1) + (3 + 1)) + 3 * 2);
  EXPECT_EQ(windows->groups()[0].n_blocks(), kBlocks);
}

TEST(RetainedBlocks, RoomOutOfRangeIsRefused) {
  const auto plan = [](int64_t n_tokens, int32_t n_marks) {
    return KvCache::plan(cpu_device(), {.layers = {}, .n_ctx = 64, .n_retained_tokens = n_tokens, .n_marks = n_marks});
  };
  EXPECT_ERROR(plan(-1, 0), "-1 tokens of retained blocks");
  EXPECT_ERROR(plan(kMaxRetainedTokens + 1, 0), "tokens of retained blocks");
  EXPECT_ERROR(plan(0, -1), "-1 marks");
  EXPECT_ERROR(plan(0, kMaxMarks + 1), "marks, want 0 to");
}

TEST(RetainedBlocks, StayWhenTheirSequenceGoes) {
  const auto cache = roomy_cache(0);
  const KvGroup& group = cache->groups()[0];
  ASSERT_OK(reserve_range(*cache, 0, 0, 200));
  const std::vector<int32_t> cells = cache->cells(0)->cells;
  const std::vector<int32_t> blocks = retain_blocks(*cache, 0, 4);
  EXPECT_EQ(group.n_idle_blocks(), 0);
  ASSERT_OK(cache->clear());
  EXPECT_EQ(group.n_idle_blocks(), 4);
  EXPECT_EQ(group.n_used_blocks(), 4);
  EXPECT_EQ(group.n_blocks_of(0), 0);
  ASSERT_OK(cache->attach(1, blocks, kNoWindows, 200));
  EXPECT_EQ(group.n_idle_blocks(), 0);
  EXPECT_EQ(group.n_blocks_of(1), 4);
  EXPECT_EQ(cache->cells(1)->cells, cells);
  for (const int32_t block : blocks) cache->release_block(block);
  EXPECT_EQ(group.n_used_blocks(), 4);
  ASSERT_OK(cache->remove(1, 0, kAll));
  EXPECT_EQ(group.n_used_blocks(), 0);
}

TEST(RetainedBlocks, ALastBlockMayBeAttachedInPart) {
  const auto cache = roomy_cache(0);
  ASSERT_OK(reserve_range(*cache, 0, 0, 100));
  const std::vector<int32_t> blocks = retain_blocks(*cache, 0, 2);
  ASSERT_OK(cache->attach(1, blocks, kNoWindows, 70));
  EXPECT_EQ(positions_of(*cache, 1).size(), 70u);
  // Both sequences write into the block, and each gets one of its own.
  EXPECT_EQ(cache->blocks_to_decode(range_of(1, 70, 71)), std::vector<int64_t>{1});
  ASSERT_OK(reserve_range(*cache, 1, 70, 71));
  ASSERT_OK(reserve_range(*cache, 0, 100, 101));
  EXPECT_NE(cache->cells(1)->cells.back() / 64, blocks[1]);
  EXPECT_NE(cache->cells(0)->cells.back() / 64, blocks[1]);
  EXPECT_EQ(cache->groups()[0].n_idle_blocks(), 1);
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 4);
}

TEST(RetainedBlocks, OnlyBlocksFilledFromTheirFirstPositionAreRetained) {
  const auto cache = roomy_cache(0);
  EXPECT_ERROR(cache->retain_block(0, 0), "does not store position 0");
  ASSERT_OK(reserve_range(*cache, 0, 5, 80));
  EXPECT_ERROR(cache->retain_block(0, 0), "does not store position 0");
  EXPECT_OK(cache->retain_block(0, 1));
  EXPECT_ERROR(cache->retain_block(0, 2), "does not store position 128");
  EXPECT_ERROR(cache->retain_block(0, 8), "does not store position 512");
  EXPECT_ERROR(cache->retain_block(0, -1), "does not store position -64");
  EXPECT_ERROR(cache->retain_block(2, 0), "sequence 2");
  ASSERT_OK(cache->remove(0, 70, 72));
  EXPECT_ERROR(cache->retain_block(0, 1), "does not store position 64");
}

TEST(RetainedBlocks, AttachRefusesWhatDoesNotFit) {
  const auto cache = roomy_cache(0);
  ASSERT_OK(reserve_range(*cache, 0, 0, 130));
  const std::vector<int32_t> blocks = retain_blocks(*cache, 0, 3);
  EXPECT_ERROR(cache->attach(0, blocks, kNoWindows, 130), "sequence 0 has positions already");
  EXPECT_ERROR(cache->attach(1, blocks, kNoWindows, 0), "0 positions, want 1 to 512");
  EXPECT_ERROR(cache->attach(1, blocks, kNoWindows, 513), "513 positions");
  EXPECT_ERROR(cache->attach(1, blocks, kNoWindows, 128), "3 blocks of group 0 for 128 positions, want 2");
  EXPECT_ERROR(cache->attach(2, blocks, kNoWindows, 130), "sequence 2");
  EXPECT_ERROR(cache->attach(1, std::vector{blocks[0], blocks[1], 9}, kNoWindows, 130), "block 9 of group 0");
  EXPECT_ERROR(cache->attach(1, std::vector{blocks[0], -1, blocks[2]}, kNoWindows, 130), "block -1");
  EXPECT_EQ(cache->max_position(1), std::nullopt);
}

TEST(RetainedBlocks, MergeReleasesTheOwnBlock) {
  const auto cache = roomy_cache(0);
  ASSERT_OK(reserve_range(*cache, 0, 0, 64));
  ASSERT_OK(reserve_range(*cache, 1, 0, 70));
  const int32_t block = cache->retain_block(0, 0).value();
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 3);
  ASSERT_OK(cache->merge_block(1, 0, block));
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 2);
  ASSERT_OK(cache->merge_block(1, 0, block));  // has no effect
  EXPECT_EQ(cache->cells(1)->cells[5], cache->cells(0)->cells[5]);
  EXPECT_ERROR(cache->merge_block(1, 1, block), "does not store positions 64 to 127");
  EXPECT_ERROR(cache->merge_block(1, 99, block), "does not store positions");
  EXPECT_ERROR(cache->merge_block(1, 0, 5), "block 5 is not retained");
  ASSERT_OK(cache->clear());
  EXPECT_EQ(cache->groups()[0].n_idle_blocks(), 1);
  cache->release_block(block);
  EXPECT_EQ(cache->groups()[0].n_used_blocks(), 0);
}

TEST(RetainedBlocks, WindowsKeepWhatTheNextTokenSees) {
  const auto cache = roomy_cache(30);
  for (int32_t p = 0; p < 300; p += 50) ASSERT_OK(reserve_range(*cache, 0, p, p + 50));
  const std::vector<int32_t> blocks = retain_blocks(*cache, 0, 5);
  ASSERT_OK_AND_ASSIGN(const auto windows, cache->retain_windows(0));
  EXPECT_TRUE(windows[0].empty());
  EXPECT_EQ(windows[1].size(), 1u);  // positions 271 to 299
  ASSERT_OK(cache->clear());
  EXPECT_EQ(cache->groups()[1].n_idle_blocks(), 1);
  EXPECT_ERROR(cache->attach(1, blocks, kNoWindows, 300), "0 blocks of group 1 for 300 positions, want 1");
  ASSERT_OK(cache->attach(1, blocks, windows, 300));
  EXPECT_EQ(positions_of(*cache, 1, 1).front(), 271);
  EXPECT_EQ(positions_of(*cache, 1, 1).size(), 29u);
  EXPECT_EQ(cache->lowest_rollback(1), 300);
  EXPECT_ERROR(cache->remove(1, 299, 300), "no longer hold");
  EXPECT_OK(reserve_range(*cache, 1, 300, 330));
  ASSERT_OK(cache->clear());
  for (const int32_t block : blocks) cache->release_block(block);
  cache->release_windows(windows);
  for (const KvGroup& group : cache->groups()) EXPECT_EQ(group.n_used_blocks(), 0);
}

TEST(RetainedBlocks, WindowsWithForgottenPositionsAreNotRetained) {
  const auto cache = roomy_cache(30);
  EXPECT_ERROR(cache->retain_windows(0), "sequence 0 is empty");
  ASSERT_OK(reserve_range(*cache, 0, 0, 10));
  ASSERT_OK(reserve_range(*cache, 0, 20, 40));
  EXPECT_ERROR(cache->retain_windows(0), "do not hold position 11");
  EXPECT_EQ(cache->groups()[1].n_idle_blocks(), 0);
}

TEST(RetainedBlocks, ABatchThatFitsByTheirCountIsStored) {
  const auto cache = roomy_cache(30, 3);
  // Three micro-batches of one sequence, and a part of another one.
  std::vector<BatchToken> batch = range_of(0, 0, 192);
  for (const BatchToken& t : range_of(1, 0, 10)) batch.push_back(t);
  EXPECT_EQ(cache->blocks_to_decode(batch), (std::vector<int64_t>{4, 4}));
  // In a group with a window a sequence of any length needs 30 - 1 + 64 + 64 positions: three blocks, one more as they
  // begin anywhere, and one for the copy of a shared block.
  EXPECT_EQ(cache->blocks_to_decode(range_of(0, 0, 500)), (std::vector<int64_t>{8, 5}));
}

// --- all parts of a sequence

std::unique_ptr<SequenceMemory> retaining_memory(bool is_recurrent, bool has_encoder, int32_t n_marks = 2) {
  SequenceMemoryConfig config{.kv_layers = {{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1}},
                              .type_k = DType::f32,
                              .type_v = DType::f32,
                              .n_ctx = 256,
                              .n_sequences = 2,
                              .n_retained_tokens = 256,
                              .n_marks = n_marks};
  if (is_recurrent) config.recurrent_layers = {{{3, 2}}, {{1}}};
  if (has_encoder) config.prompt_layers = config.kv_layers;
  auto memory = SequenceMemory::plan(cpu_device(), config).value();
  EXPECT_OK(memory->allocate());
  return memory;
}

Result<Reservation> store_tokens(SequenceMemory& memory, int32_t sequence, int32_t begin, int32_t end) {
  Reservation reservation;
  TESSERA_TRY(memory.reserve(range_of(sequence, begin, end), reservation));
  TESSERA_TRY(memory.commit());
  return reservation;
}

TEST(Marks, AreNeededForStatesAndWindowsOnly) {
  EXPECT_FALSE(retaining_memory(false, false)->needs_marks());
  EXPECT_TRUE(retaining_memory(true, false)->needs_marks());
  EXPECT_TRUE(roomy_cache(30)->has_windows());
  EXPECT_FALSE(roomy_cache(0)->has_windows());
}

TEST(Marks, KeepTheRecurrentState) {
  const auto memory = retaining_memory(true, false);
  ASSERT_OK_AND_ASSIGN(const Reservation first, store_tokens(*memory, 0, 0, 10));
  const int32_t state_slot = first.segments[3];  // the one that the segment writes
  ASSERT_OK_AND_ASSIGN(const Mark mark, memory->retain_mark(0));
  ASSERT_OK_AND_ASSIGN(const int32_t block, memory->retain_block(0, 0));
  EXPECT_EQ(mark.n_positions, 10);
  EXPECT_EQ(mark.state_slot, state_slot);
  ASSERT_OK_AND_ASSIGN(const Reservation second, store_tokens(*memory, 0, 10, 20));
  EXPECT_EQ(second.segments[2], state_slot);
  EXPECT_NE(second.segments[3], state_slot);
  EXPECT_ERROR(memory->attach(0, std::vector{block}, 10, mark), "has a state already");
  ASSERT_OK(memory->clear());
  EXPECT_ERROR(memory->attach(1, std::vector{block}, 9, mark), "a mark at 10, want 9");
  EXPECT_ERROR(memory->attach(1, std::vector{block}, 10, Mark{.n_positions = 10}), "state slot -1 is not retained");
  ASSERT_OK(memory->attach(1, std::vector{block}, 10, mark));
  EXPECT_EQ(memory->max_position(1), 9);
  memory->release_mark(mark);  // the sequence has a reference of its own
  ASSERT_OK_AND_ASSIGN(const Reservation other, store_tokens(*memory, 0, 0, 1));
  EXPECT_NE(other.segments[3], state_slot);
  EXPECT_ERROR(store_tokens(*memory, 1, 11, 12), "after 9");
  ASSERT_OK(memory->rollback());
  ASSERT_OK_AND_ASSIGN(const Reservation third, store_tokens(*memory, 1, 10, 11));
  EXPECT_EQ(third.segments[2], state_slot);
  EXPECT_NE(third.segments[3], state_slot);
}

TEST(Marks, AreBoundedByTheirRoom) {
  const auto memory = retaining_memory(true, false, 1);
  EXPECT_ERROR(memory->retain_mark(0), "sequence 0 is empty");
  ASSERT_OK(store_tokens(*memory, 0, 0, 10));
  EXPECT_EQ(memory->n_free_marks(), 1);
  ASSERT_OK_AND_ASSIGN(const Mark mark, memory->retain_mark(0));
  EXPECT_EQ(memory->n_free_marks(), 0);
  const auto refused = memory->retain_mark(0);
  EXPECT_ERROR(refused, "all 1 retained states are taken");
  EXPECT_EQ(refused.error().code(), ErrorCode::limit);
  memory->release_mark(mark);
  EXPECT_EQ(memory->n_free_marks(), 1);
  // Both sequences replace their states while all other slots are taken.
  ASSERT_OK(memory->retain_mark(0));
  ASSERT_OK(store_tokens(*memory, 1, 0, 10));
  Reservation reservation;
  std::vector<BatchToken> both = range_of(0, 10, 20);
  for (const BatchToken& t : range_of(1, 10, 20)) both.push_back(t);
  EXPECT_OK(memory->reserve(both, reservation));
  EXPECT_OK(memory->commit());
}

TEST(Marks, SequencesOfAnEncodersPromptAreNotRetained) {
  const auto memory = retaining_memory(false, true);
  Reservation reservation;
  ASSERT_OK(memory->reserve_prompt(range_of(0, 0, 5), reservation));
  ASSERT_OK(store_tokens(*memory, 0, 0, 10));
  EXPECT_ERROR(memory->retain_block(0, 0), "cannot be retained");
  EXPECT_ERROR(memory->retain_mark(0), "cannot be retained");
  EXPECT_ERROR(memory->attach(1, {}, 5, {}), "cannot be retained");
}

}  // namespace
}  // namespace tessera
