// The tables of recurrent states: the slots that a batch reads and writes, and the effects of copies, checkpoints and
// errors.
#include "tessera/cache/recurrent.h"

#include <algorithm>
#include <limits>

#include "tessera/base/rng.h"
#include "tests/support/cache_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int32_t kEnd = std::numeric_limits<int32_t>::max();

std::unique_ptr<RecurrentCache> small_states(int32_t n_sequences, int32_t n_checkpoints) {
  auto cache =
      RecurrentCache::plan(cpu_device(),
                           {.layers = {{{3, 2}}, {{1}}}, .n_sequences = n_sequences, .n_checkpoints = n_checkpoints})
          .value();
  EXPECT_OK(cache->allocate());
  return cache;
}

std::vector<BatchToken> tokens_of(int32_t sequence, int32_t begin, int32_t end) {
  std::vector<BatchToken> tokens;
  for (int32_t p = begin; p < end; ++p) tokens.push_back({.position = p, .sequence = sequence});
  return tokens;
}

struct SegmentFields {
  int32_t begin, count, read, write;
};

SegmentFields first_segment(const std::vector<int32_t>& segments) {
  return {segments[0], segments[1], segments[2], segments[3]};
}

Result<SegmentFields> reserve_one(RecurrentCache& cache, int32_t sequence, int32_t begin, int32_t end) {
  std::vector<int32_t> segments;
  TESSERA_TRY(cache.reserve(tokens_of(sequence, begin, end), segments));
  return first_segment(segments);
}

Result<SegmentFields> decode_one(RecurrentCache& cache, int32_t sequence, int32_t begin, int32_t end) {
  TESSERA_ASSIGN(const SegmentFields segment, reserve_one(cache, sequence, begin, end));
  cache.commit();
  return segment;
}

TEST(RecurrentCache, ABatchBeginsFromTheStateAndWritesAnother) {
  const auto cache = small_states(2, 0);
  ASSERT_OK_AND_ASSIGN(const SegmentFields first, decode_one(*cache, 0, 5, 8));
  EXPECT_EQ(first.read, -1);
  EXPECT_EQ(first.count, 3);
  EXPECT_EQ(cache->last_position(0), 7);
  ASSERT_OK_AND_ASSIGN(const SegmentFields second, decode_one(*cache, 0, 8, 9));
  EXPECT_EQ(second.read, first.write);
  EXPECT_NE(second.write, first.write);
  EXPECT_EQ(cache->last_position(0), 8);
  EXPECT_EQ(cache->last_position(1), std::nullopt);
}

TEST(RecurrentCache, LaterPartsOfABatchStayInTheSlotItWrites) {
  const auto cache = small_states(1, 0);
  ASSERT_OK_AND_ASSIGN(const SegmentFields before, decode_one(*cache, 0, 0, 1));
  ASSERT_OK_AND_ASSIGN(const SegmentFields first, reserve_one(*cache, 0, 1, 3));
  ASSERT_OK_AND_ASSIGN(const SegmentFields second, reserve_one(*cache, 0, 3, 4));
  EXPECT_EQ(second.read, first.write);
  EXPECT_EQ(second.write, first.write);
  cache->discard();
  EXPECT_EQ(cache->last_position(0), 0);
  ASSERT_OK_AND_ASSIGN(const SegmentFields again, reserve_one(*cache, 0, 1, 2));
  EXPECT_EQ(again.read, before.write);
}

TEST(RecurrentCache, RunsGatherInterleavedTokens) {
  const auto cache = small_states(3, 0);
  const std::vector<BatchToken> tokens = {{.position = 0, .sequence = 2},
                                          {.position = 4, .sequence = 0},
                                          {.position = 1, .sequence = 2},
                                          {.position = 5, .sequence = 0},
                                          {.position = 6, .sequence = 0}};
  std::vector<int32_t> segments;
  ASSERT_OK(cache->reserve(tokens, segments));
  ASSERT_EQ(static_cast<int64_t>(segments.size()), cache->n_segment_entries(5));
  EXPECT_EQ(std::vector<int32_t>(segments.begin() + 12, segments.end()), (std::vector<int32_t>{1, 3, 4, 0, 2}));
  EXPECT_EQ(segments[1], 3);
  EXPECT_EQ(segments[4], 3);
  EXPECT_EQ(segments[5], 2);
  EXPECT_EQ(segments[9], 0);  // there are two segments
  EXPECT_NE(segments[3], segments[7]);
}

TEST(RecurrentCache, PositionsMustFollow) {
  const auto cache = small_states(2, 0);
  ASSERT_OK(decode_one(*cache, 0, 0, 3));
  EXPECT_ERROR(reserve_one(*cache, 0, 2, 3), "position 2 of sequence 0 after 2");
  EXPECT_ERROR(reserve_one(*cache, 0, 4, 5), "position 4 of sequence 0 after 2");
  EXPECT_ERROR(reserve_one(*cache, 2, 0, 1), "sequence 2, want 0 to 1");
  EXPECT_ERROR(reserve_one(*cache, -1, 0, 1), "sequence -1");
  std::vector<int32_t> segments;
  const std::vector<BatchToken> backwards = {{.position = 4, .sequence = 1}, {.position = 3, .sequence = 1}};
  EXPECT_ERROR(cache->reserve(backwards, segments), "position 3 of sequence 1 after 4");
  ASSERT_OK(decode_one(*cache, 0, 3, 4));  // the failed calls reserved nothing
}

TEST(RecurrentCache, ACopySharesTheSlotUntilOneWrites) {
  const auto cache = small_states(3, 0);
  ASSERT_OK_AND_ASSIGN(const SegmentFields first, decode_one(*cache, 0, 0, 3));
  ASSERT_OK(cache->copy(0, 1, 0, kEnd));
  EXPECT_EQ(cache->last_position(1), 2);
  ASSERT_OK_AND_ASSIGN(const SegmentFields own, decode_one(*cache, 1, 3, 4));
  EXPECT_EQ(own.read, first.write);
  ASSERT_OK_AND_ASSIGN(const SegmentFields original, reserve_one(*cache, 0, 3, 4));
  EXPECT_EQ(original.read, first.write);
  EXPECT_NE(original.write, own.write);
  cache->discard();
  EXPECT_ERROR(cache->copy(0, 1, 0, kEnd), "sequence 1 has a state already");
  EXPECT_ERROR(cache->copy(0, 2, 0, 2), "copied whole");
  EXPECT_ERROR(cache->copy(0, 2, 1, 9), "copied whole");
  ASSERT_OK(cache->copy(0, 2, 3, 9));  // nothing is there
  EXPECT_EQ(cache->last_position(2), std::nullopt);
  ASSERT_OK(cache->copy(0, 0, 0, 1));
  EXPECT_ERROR(cache->copy(0, 3, 0, kEnd), "sequence 3");
}

TEST(RecurrentCache, OnlyAllOrTheEndDownToACheckpointIsRemoved) {
  const auto cache = small_states(2, 2);
  ASSERT_OK(decode_one(*cache, 0, 0, 3));
  EXPECT_ERROR(cache->remove(0, 2, 3), "cannot go back but to a checkpoint (there is none)");
  ASSERT_OK(cache->checkpoint(0));
  ASSERT_OK(cache->checkpoint(0));  // it exists already
  EXPECT_EQ(cache->checkpoints(0), (std::vector<int32_t>{2}));
  ASSERT_OK_AND_ASSIGN(const SegmentFields from_checkpoint, decode_one(*cache, 0, 3, 6));
  ASSERT_OK(cache->checkpoint(0));
  ASSERT_OK(decode_one(*cache, 0, 6, 8));
  EXPECT_ERROR(cache->remove(0, 4, kEnd), "(the last one is at 6)");
  EXPECT_ERROR(cache->remove(0, 0, 7), "cannot forget a part but its end");
  EXPECT_ERROR(cache->remove(0, 3, 7), "cannot forget a part but its end");
  ASSERT_OK(cache->remove(0, 8, kEnd));  // nothing is there
  ASSERT_OK(cache->remove(0, 5, 5));
  EXPECT_EQ(cache->last_position(0), 7);
  ASSERT_OK(cache->remove(0, 3, 8));  // removes the later checkpoint
  EXPECT_EQ(cache->last_position(0), 2);
  EXPECT_EQ(cache->checkpoints(0), (std::vector<int32_t>{2}));
  ASSERT_OK_AND_ASSIGN(const SegmentFields again, decode_one(*cache, 0, 3, 4));
  EXPECT_EQ(again.read, from_checkpoint.read);
  ASSERT_OK(cache->remove(0, 0, kEnd));
  EXPECT_EQ(cache->last_position(0), std::nullopt);
  EXPECT_TRUE(cache->checkpoints(0).empty());
  ASSERT_OK_AND_ASSIGN(const SegmentFields anew, decode_one(*cache, 0, 9, 10));
  EXPECT_EQ(anew.read, -1);
}

TEST(RecurrentCache, CheckpointsAreCounted) {
  const auto cache = small_states(2, 1);
  EXPECT_ERROR(cache->checkpoint(0), "sequence 0 has no state to keep");
  ASSERT_OK(decode_one(*cache, 0, 0, 1));
  ASSERT_OK(decode_one(*cache, 1, 0, 1));
  ASSERT_OK(cache->checkpoint(0));
  const auto full = cache->checkpoint(1);
  EXPECT_ERROR(full, "all 1 checkpoints are taken");
  EXPECT_EQ(full.error().code(), ErrorCode::limit);
  ASSERT_OK(cache->drop_checkpoints(0));
  ASSERT_OK(cache->checkpoint(1));
  EXPECT_ERROR(cache->checkpoint(7), "sequence 7");
}

TEST(RecurrentCache, ShiftsMoveOnlyPositions) {
  const auto cache = small_states(1, 1);
  ASSERT_OK(decode_one(*cache, 0, 0, 3));
  ASSERT_OK(cache->checkpoint(0));
  ASSERT_OK(decode_one(*cache, 0, 3, 5));
  EXPECT_ERROR(cache->shift(0, 2, kEnd, 4), "shifted whole");
  ASSERT_OK(cache->shift(0, 5, 9, 4));
  EXPECT_EQ(cache->last_position(0), 4);
  ASSERT_OK(cache->shift(0, 0, 5, 4));
  EXPECT_EQ(cache->last_position(0), 8);
  EXPECT_ERROR(reserve_one(*cache, 0, 5, 6), "after 8");
  ASSERT_OK(cache->remove(0, 7, kEnd));
  EXPECT_EQ(cache->last_position(0), 6);
}

TEST(RecurrentCache, StatesAreSavedAndRestored) {
  const auto cache = small_states(2, 0);
  EXPECT_EQ(cache->state_bytes(), 6 * sizeof(float));
  ASSERT_OK(decode_one(*cache, 0, 0, 3));
  std::vector<std::byte> bytes(cache->state_bytes());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  ASSERT_OK(cache->restore(1, 4, 9, bytes));
  EXPECT_EQ(cache->last_position(1), 9);
  std::vector<std::byte> saved(bytes.size());
  ASSERT_OK(cache->save(1, saved));
  EXPECT_EQ(saved, bytes);
  ASSERT_OK(cache->save(0, saved));
  EXPECT_EQ(saved, std::vector<std::byte>(saved.size()));
  EXPECT_FALSE(cache->save(1, std::span(saved).first(3)).has_value());
  EXPECT_FALSE(cache->restore(1, 0, 1, std::span(saved).first(3)).has_value());
}

TEST(RecurrentCache, NumbersOutOfRangeAreRefused) {
  const auto plan = [](int32_t n_sequences, int32_t n_checkpoints, int64_t n) {
    return RecurrentCache::plan(cpu_device(),
                                {.layers = {{{n}}}, .n_sequences = n_sequences, .n_checkpoints = n_checkpoints});
  };
  EXPECT_ERROR(plan(0, 0, 1), "0 sequences");
  EXPECT_ERROR(plan(1 << 20, 0, 1), "sequences, want 1 to");
  EXPECT_ERROR(plan(1, -1, 1), "-1 checkpoints");
  EXPECT_ERROR(plan(1, 1 << 20, 1), "checkpoints, want 0 to");
  EXPECT_FALSE(plan(1, 0, int64_t{1} << 61).has_value());
}

// Random operations against a model in which every sequence and checkpoint has a separate state: a number that
// identifies the history of its tokens.
TEST(RecurrentCache, WhateverHappensEveryoneHasTheirOwnState) {
  constexpr int32_t kSequences = 4, kCheckpoints = 3;
  using Kept = std::pair<int32_t, uint64_t>;  // last position, state
  struct Known {
    int32_t last = -1;
    uint64_t state = 0;
    std::vector<Kept> checkpoints{};
  };
  const auto cache = small_states(kSequences, kCheckpoints);
  std::vector<Known> known(kSequences);
  std::vector<uint64_t> slots(2 * kSequences + kCheckpoints);  // the contents after the writes of the graph
  Rng rng(1);
  int n_decoded = 0, n_rolled_back = 0;
  for (int step = 0; step < 20000; ++step) {
    const auto s = static_cast<int32_t>(rng.next_u32() % kSequences);
    Known& k = known[static_cast<size_t>(s)];
    switch (rng.next_u32() % 6) {
      case 0:
      case 1: {  // a batch of some parts and sequences, which sometimes fails
        std::vector<Known> after = known;
        bool fails = rng.next_u32() % 4 == 0;
        for (uint32_t part = 0; part < 1 + rng.next_u32() % 3; ++part) {
          std::vector<BatchToken> tokens;
          for (int32_t q = 0; q < kSequences; ++q)
            for (uint32_t n = rng.next_u32() % 3; n > 0; --n)
              tokens.push_back({.position = ++after[static_cast<size_t>(q)].last, .sequence = q});
          std::vector<int32_t> segments;
          ASSERT_OK(cache->reserve(tokens, segments));
          const size_t n_segments = (segments.size() - tokens.size()) / 4;
          for (size_t r = 0; r < n_segments; ++r) {
            const SegmentFields segment{segments[4 * r], segments[4 * r + 1], segments[4 * r + 2], segments[4 * r + 3]};
            if (segment.count == 0) continue;
            const int32_t q =
                tokens[static_cast<size_t>(segments[4 * n_segments + static_cast<size_t>(segment.begin)])].sequence;
            uint64_t state = segment.read < 0 ? 0 : slots[static_cast<size_t>(segment.read)];
            ASSERT_EQ(state, after[static_cast<size_t>(q)].state);
            state = state * 6364136223846793005u + rng.next_u32() + 1;
            slots[static_cast<size_t>(segment.write)] = after[static_cast<size_t>(q)].state = state;
          }
        }
        fails ? cache->discard() : cache->commit();
        if (!fails) known = after;
        ++n_decoded;
        break;
      }
      case 2: {
        const auto to = static_cast<int32_t>(rng.next_u32() % kSequences);
        Known& target = known[static_cast<size_t>(to)];
        const bool fits = to == s || k.last < 0 || target.last < 0;
        ASSERT_EQ(cache->copy(s, to, 0, kEnd).has_value(), fits);
        if (fits && to != s && k.last >= 0) target = {.last = k.last, .state = k.state};
        break;
      }
      case 3:
        if (rng.next_u32() % 3 == 0) {
          ASSERT_OK(cache->remove(s, 0, kEnd));
          k = {};
        }
        break;
      case 4: {
        size_t n_kept = 0;
        for (const Known& other : known) n_kept += other.checkpoints.size();
        const bool is_there = !k.checkpoints.empty() && k.checkpoints.back().first == k.last;
        const bool fits = k.last >= 0 && (is_there || n_kept < kCheckpoints);
        ASSERT_EQ(cache->checkpoint(s).has_value(), fits);
        if (fits && !is_there) k.checkpoints.push_back({k.last, k.state});
        break;
      }
      default: {
        if (k.last < 1) break;
        const auto begin = static_cast<int32_t>(1 + rng.next_u32() % static_cast<uint32_t>(k.last));
        const auto kept = std::ranges::find(k.checkpoints, begin - 1, &Kept::first);
        ASSERT_EQ(cache->remove(s, begin, kEnd).has_value(), kept != k.checkpoints.end());
        if (kept == k.checkpoints.end()) break;
        k.last = kept->first;
        k.state = kept->second;
        k.checkpoints.erase(kept + 1, k.checkpoints.end());
        ++n_rolled_back;
      }
    }
    for (int32_t q = 0; q < kSequences; ++q)
      ASSERT_EQ(cache->last_position(q).value_or(-1), known[static_cast<size_t>(q)].last);
  }
  EXPECT_GT(n_decoded, 1000);
  EXPECT_GT(n_rolled_back, 20);
}

}  // namespace
}  // namespace tessera
