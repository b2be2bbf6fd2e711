// The division of a step among prompts, by hand.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tessera/server/run/step_division.h"

namespace tessera::server {
namespace {

using Tokens = std::vector<int64_t>;

constexpr int64_t kFar = 65536;     // as many pairs cost as much as a token
constexpr int64_t kMany = 100'000;  // more tokens than any step here may take

// A step takes 1 ms, and 1 ms more for each decoding sequence, for each token of a prompt and for 65,536 pairs. So a
// token of a prompt takes 1 ms at its beginning and 10 ms at the position 9 * kFar. The pairs within a piece are the
// fraction of a millisecond by which the targets below are not whole.
const StepForecast kForecast(1);
constexpr StepWork kDecoding{.n_prefill = 0, .n_pairs = 0, .n_decoding = 9};  // 10 ms

Tokens divide(const std::vector<StepPrompt>& prompts, double target_ms, int64_t n_most = kMany) {
  return divide_time(kForecast, kDecoding, prompts, n_most, target_ms);
}

StepPrompt prompt(int64_t n_wanted, int64_t position = 0, double score_work = 0) {
  return {.position = position, .n_wanted = n_wanted, .score_work = score_work};
}

TEST(StepWork, PiecesOfAPromptAddUpToTheWhole) {
  StepWork whole{.n_prefill = 3, .n_pairs = 7, .n_decoding = 2, .score_work = 1}, pieces = whole;
  whole.add_prefill(100, 60, 0.5);
  EXPECT_EQ(whole.n_prefill, 63);
  EXPECT_EQ(whole.n_pairs, 7 + 60 * 100 + 60 * 30);
  EXPECT_EQ(whole.n_decoding, 2);
  EXPECT_EQ(whole.score_work, 31);
  pieces.add_prefill(100, 20, 0.5);
  pieces.add_prefill(120, 40, 0.5);
  EXPECT_EQ(pieces.n_prefill, whole.n_prefill);
  EXPECT_EQ(pieces.n_pairs, whole.n_pairs);
  EXPECT_EQ(pieces.score_work, whole.score_work);
}

TEST(StepTokens, HalfIsForTheFirstAndWhatOthersLeave) {
  const auto tokens = [](const std::vector<StepPrompt>& prompts, int64_t n_most) {
    return divide_tokens(prompts, n_most);
  };
  EXPECT_EQ(tokens({prompt(1000)}, 100), Tokens({100}));
  EXPECT_EQ(tokens({prompt(30)}, 100), Tokens({30}));
  EXPECT_EQ(tokens({prompt(1000), prompt(1000)}, 100), Tokens({50, 50}));
  EXPECT_EQ(tokens({prompt(10), prompt(1000), prompt(1000)}, 100), Tokens({10, 90, 0}));
  EXPECT_EQ(tokens({prompt(1000), prompt(20), prompt(10)}, 100), Tokens({70, 20, 10}));
  EXPECT_EQ(tokens({prompt(60), prompt(20), prompt(10)}, 100), Tokens({60, 20, 10}));
  EXPECT_EQ(tokens({prompt(1000), prompt(1000)}, 24), Tokens({16, 8}));  // at least a chunk
  EXPECT_EQ(tokens({prompt(1000), prompt(1000)}, 8), Tokens({8, 0}));
}

TEST(StepWork, TokensOfAnEncodedTextAttendToAll) {
  StepWork work{.n_prefill = 3, .n_pairs = 7, .n_decoding = 2, .score_work = 1};
  work.add_encoded(10);
  EXPECT_EQ(work.n_prefill, 13);
  EXPECT_EQ(work.n_pairs, 107);
  EXPECT_EQ(work.n_decoding, 2);
  EXPECT_EQ(work.score_work, 1);
}

TEST(StepTime, OnePromptTakesAllThatIsLeft) {
  EXPECT_EQ(divide({prompt(1000)}, 110.5), Tokens({100}));
  EXPECT_EQ(divide({prompt(1000, 4 * kFar)}, 110.5), Tokens({20}));  // 5 ms each
  EXPECT_EQ(divide({prompt(1000)}, 110.5, 30), Tokens({30}));
  EXPECT_EQ(divide({prompt(25)}, 110.5), Tokens({25}));
}

TEST(StepTime, AShortPromptAdvancesBesideALongOne) {
  EXPECT_EQ(divide({prompt(1000), prompt(8)}, 110.5), Tokens({92, 8}));
  EXPECT_EQ(divide({prompt(8), prompt(1000)}, 110.5), Tokens({8, 92}));
  EXPECT_EQ(divide({prompt(1000, 4 * kFar), prompt(40), prompt(1000)}, 210.5), Tokens({20, 40, 60}))
      << "the first has half of the time: 100 ms, in which it computes 20 tokens at its position";
}

TEST(StepTime, WhatOthersLeaveIsForTheFirst) {
  EXPECT_EQ(divide({prompt(1000), prompt(20), prompt(10)}, 110.5), Tokens({70, 20, 10}));
  EXPECT_EQ(divide({prompt(60), prompt(20), prompt(10)}, 110.5), Tokens({60, 20, 10}));
}

TEST(StepTime, AShareThatIsNotNeededIsForTheNext) {
  EXPECT_EQ(divide({prompt(10), prompt(20), prompt(1000)}, 110.5), Tokens({10, 20, 70}));
}

// Their order changes from step to step, see Scheduling.
TEST(StepTime, EqualPromptsTakeTheirTurns) {
  EXPECT_EQ(divide({4, prompt(20)}, 110.5), Tokens({20, 20, 20, 20}));
  EXPECT_EQ(divide({4, prompt(30)}, 110.5), Tokens({30, 30, 30, 0}));
}

TEST(StepTime, ATargetThatNoPieceMeetsLeavesTheLeastToTheFirst) {
  for (const double target_ms : {1e-6, 5.0, 12.0}) {
    EXPECT_EQ(divide({prompt(1000)}, target_ms), Tokens({16})) << target_ms;
    EXPECT_EQ(divide({prompt(5)}, target_ms), Tokens({5})) << target_ms;
    EXPECT_EQ(divide({prompt(1000), prompt(1000), prompt(5)}, target_ms), Tokens({16, 0, 0})) << target_ms;
  }
  EXPECT_EQ(divide({prompt(1000)}, 12, 7), Tokens({7}));
}

// The time is enough for all tokens of the step.
TEST(StepTime, HalfOfTheTokensIsForTheOthersToo) {
  EXPECT_EQ(divide({prompt(1000), prompt(1000)}, 1e6, 100), Tokens({50, 50}));
  EXPECT_EQ(divide({prompt(1000), prompt(8), prompt(20)}, 1e6, 100), Tokens({72, 8, 20}));
  EXPECT_EQ(divide({prompt(1000), prompt(1000)}, 1e6, 24), Tokens({16, 8}));  // at least a chunk
  EXPECT_EQ(divide({prompt(1000), prompt(1000)}, 1e6, 8), Tokens({8, 0}));
}

// Each of their tokens has a row of logits, which takes as long as the token.
TEST(StepTime, ScoredPromptsKeepTheTargetTogether) {
  const StepPrompt scored = prompt(1000, 0, 1);
  EXPECT_EQ(divide({scored}, 110.5), Tokens({50}));
  EXPECT_EQ(divide({scored, scored}, 110.5), Tokens({25, 25}));
  EXPECT_EQ(divide({scored, scored, scored}, 150.5), Tokens({35, 35, 0}));
  EXPECT_EQ(divide({scored, prompt(20, 0, 1), prompt(10, 0, 2)}, 160.5), Tokens({40, 20, 10}));
  EXPECT_EQ(divide({scored, prompt(1000)}, 110.5), Tokens({25, 50})) << "only scored prompts have rows";
  EXPECT_EQ(divide({prompt(1000), scored}, 110.5), Tokens({50, 25}));
}

// The first takes 160 ms for its least number of tokens, and the others may end 11 ms later.
TEST(StepTime, BesideAPromptThatTakesAllOthersGetATenthMore) {
  EXPECT_EQ(divide({prompt(1000, 9 * kFar), prompt(8)}, 110.5), Tokens({16, 8}));
  EXPECT_EQ(divide({prompt(1000, 9 * kFar), prompt(12), prompt(5)}, 110.5), Tokens({16, 0, 5}));
  EXPECT_EQ(divide({prompt(1000, 39 * kFar), prompt(30), prompt(20)}, 400.5), Tokens({16, 30, 0}));  // 640 ms and 40
}

}  // namespace
}  // namespace tessera::server
