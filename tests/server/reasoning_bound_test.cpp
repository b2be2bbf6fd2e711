// The bound of the reasoning of one sequence, text by text.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/server/run/moved_chunks.h"
#include "tessera/server/run/reasoning_limit.h"
#include "tessera/text/chat/reply_family.h"

namespace tessera::server {
namespace {

using Ending = std::vector<int32_t>;

const Ending kEnding = {7, 8};

std::shared_ptr<ReasoningLimit> thinking_limit(int64_t n_most, bool is_open, bool has_many = false) {
  text::ReplyFamily family{.name = "f"};
  family.reasoning_begin = "<t>";
  family.reasoning_end = "</t>";
  family.has_many_reasonings = has_many;
  return std::make_shared<ReasoningLimit>(
      ReasoningLimit{.start = text::ReasoningWatch(family, is_open ? "<t>" : ""), .n_most = n_most, .ending = kEnding});
}

TEST(ReasoningBound, EndsAfterItsTokensOnce) {
  ReasoningBound bound(thinking_limit(2, true));
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("a");
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("b");
  EXPECT_EQ(bound.take_due(), kEnding);
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("</");
  bound.add("t>");
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("c");
  EXPECT_EQ(bound.take_due(), Ending());
}

TEST(ReasoningBound, OfZeroEndsAtOnceAndWithoutOneNever) {
  ReasoningBound none(thinking_limit(0, true));
  EXPECT_EQ(none.take_due(), kEnding);
  ReasoningBound endless(thinking_limit(-1, true));
  for (int i = 0; i < 50; ++i) endless.add("a");
  EXPECT_EQ(endless.take_due(), Ending());
}

TEST(ReasoningBound, CountsTokensOfTheReasoningOnly) {
  ReasoningBound bound(thinking_limit(2, false));
  bound.add("<t>");
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("a");
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("b");
  EXPECT_EQ(bound.take_due(), kEnding);
}

TEST(ReasoningBound, AFurtherBlockEndsAsWell) {
  ReasoningBound bound(thinking_limit(1, true, true));
  bound.add("a");
  EXPECT_EQ(bound.take_due(), kEnding);
  bound.add("</t>");
  bound.add("answer");
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("<t>");
  EXPECT_EQ(bound.take_due(), kEnding);  // all blocks share the bound
  EXPECT_EQ(bound.take_due(), Ending());
}

TEST(ReasoningBound, ACodePointIsCompletedFirst) {
  ReasoningBound bound(thinking_limit(1, true));
  bound.add("\xE2");
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("\x82");
  EXPECT_EQ(bound.take_due(), Ending());
  bound.add("\xAC");
  EXPECT_EQ(bound.take_due(), kEnding);
  // It may lack three bytes. A model that never completes it does not go on.
  ReasoningBound endless(thinking_limit(1, true));
  endless.add("\xE2");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(endless.take_due(), Ending()) << i;
  EXPECT_EQ(endless.take_due(), kEnding);
}

TEST(ReasoningBound, TheSwitchEndsAllSequencesAndCountsThem) {
  const auto limit = thinking_limit(-1, true);
  {
    ReasoningBound first(limit), second(limit);
    EXPECT_EQ(limit->shared->n_open, 2);
    first.add("</t>");
    EXPECT_EQ(limit->shared->n_open, 1);
    first.add("a");
    EXPECT_EQ(limit->shared->n_open, 1);
    limit->shared->must_end = true;
    EXPECT_EQ(first.take_due(), Ending());
    EXPECT_EQ(second.take_due(), kEnding);
  }
  EXPECT_EQ(limit->shared->n_open, 0);
}

// --- chunks of a prompt at other places

// The same by a search at every place.
std::vector<MovedChunk> chunks_by_search(const std::vector<int32_t>& held, const std::vector<int32_t>& wanted,
                                         int64_t n_common, int64_t n_least) {
  std::vector<MovedChunk> chunks;
  int64_t from = n_common, to = n_common;
  const auto n_equal = [&](int64_t a, int64_t b) {
    int64_t n = 0;
    while (a + n < std::ssize(held) && b + n < std::ssize(wanted) &&
           held[static_cast<size_t>(a + n)] == wanted[static_cast<size_t>(b + n)])
      ++n;
    return n;
  };
  while (to < std::ssize(wanted)) {
    int64_t place = from;
    while (place < std::ssize(held) && n_equal(place, to) < n_least) ++place;
    if (place >= std::ssize(held)) break;
    const int64_t n = n_equal(place, to);
    chunks.push_back({.from = place, .to = to, .n = n});
    from = place + n;
    to += n;
  }
  return chunks;
}

TEST(MovedChunks, AreThoseOfASearchAtEveryPlace) {
  Rng rng(3);
  size_t n_found = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto random_tokens = [&](uint32_t n_most) {
      std::vector<int32_t> tokens(rng.next_u32() % n_most);
      for (int32_t& token : tokens)
        token = static_cast<int32_t>(rng.next_u32() % (2 + static_cast<uint32_t>(round % 2)));
      return tokens;
    };
    const std::vector<int32_t> held = random_tokens(40), wanted = random_tokens(30);
    const auto n_common = static_cast<int64_t>(rng.next_u32() % (std::min(held.size(), wanted.size()) + 1));
    const int64_t n_least = 1 + static_cast<int64_t>(rng.next_u32() % 5);
    const auto found = moved_chunks(held, wanted, n_common, n_least);
    ASSERT_EQ(found, chunks_by_search(held, wanted, n_common, n_least)) << round;
    n_found += found.size();
  }
  EXPECT_GT(n_found, 1000u);
}

TEST(MovedChunks, NeedALeastLength) {
  const std::vector<int32_t> tokens = {1, 2, 3};
  EXPECT_TRUE(moved_chunks(tokens, tokens, 0, 0).empty());
  EXPECT_TRUE(moved_chunks(tokens, tokens, 0, -1).empty());
  EXPECT_EQ(moved_chunks(tokens, tokens, 0, 1), (std::vector<MovedChunk>{{0, 0, 3}}));
  EXPECT_EQ(moved_chunks(tokens, tokens, 0, 3), (std::vector<MovedChunk>{{0, 0, 3}}));
  EXPECT_TRUE(moved_chunks(tokens, tokens, 0, 4).empty());
}

}  // namespace
}  // namespace tessera::server
