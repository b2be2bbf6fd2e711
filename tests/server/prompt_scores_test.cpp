// Scores of prompts from the scheduler: the same bits as eval computes, for any split, company and cache.
#include <gtest/gtest.h>

#include "tessera/eval/log_likelihood.h"
#include "tests/server/scheduler_support.h"

namespace tessera {
namespace {

using namespace testing;
using server::EndReason;
using server::TokenProbs;

class PromptScores : public SchedulerTest {
 protected:
  server::SequenceSpec scored(int64_t n, int64_t n_predict, int32_t n_top = 3, int64_t first = 0) {
    server::SequenceSpec spec = sequence(n, n_predict, 0, first);
    spec.n_prompt_probs = n_top;
    return spec;
  }

  // The logits before each token but the first, all computed at once.
  std::vector<float> rows_before(std::span<const int32_t> tokens) {
    const int64_t n = std::ssize(tokens);
    auto session = Session::create(engine_, {.n_ctx = 512, .n_ubatch = 512, .n_outputs = n}).value();
    EXPECT_OK(session->decode(all_logits(tokens)));
    return all_rows(*session);
  }

  void expect_scores(const std::vector<TokenProbs>& scores, std::span<const int32_t> tokens, size_t n_top = 3) {
    ASSERT_EQ(scores.size(), tokens.size() - 1);
    const std::vector<float> rows = rows_before(tokens);
    const size_t n_vocab = rows.size() / tokens.size();
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto row = std::span(rows).subspan(i * n_vocab, n_vocab);
      const int32_t token = tokens[i + 1];
      EXPECT_EQ(scores[i].chosen.id, token);
      ASSERT_EQ(scores[i].chosen.value, static_cast<float>(-eval::negative_log_likelihood(row, token)))
          << "token " << i;
      ASSERT_EQ(scores[i].top.size(), n_top);
      if (scores[i].rank <= static_cast<int64_t>(n_top)) {
        EXPECT_EQ(scores[i].top[static_cast<size_t>(scores[i].rank - 1)].id, token);
      } else {
        for (const auto& one : scores[i].top) EXPECT_NE(one.id, token);
      }
    }
  }
};

TEST_F(PromptScores, AreThoseOfEvalForAnyNumberOfRows) {
  for (const int64_t n_rows : {0, 1, 15, 40, 200}) {
    open({.n_score_rows = n_rows, .options = {}});
    const auto tokens = token_ids(*engine_, 150);
    const auto ended = submit(scored(150, 2)).collector->wait();
    expect_scores(ended[0].scores, tokens);
    EXPECT_EQ(ended[0].tokens, alone(sequence(150, 2), 0)) << n_rows;
    EXPECT_EQ(ended[0].end->n_cached, 0);
  }
}

TEST_F(PromptScores, NoTokenFollowsWithoutPrediction) {
  open({.n_score_rows = 32, .options = {}});
  const auto ended = submit(scored(70, 0, 0)).collector->wait();
  expect_scores(ended[0].scores, token_ids(*engine_, 70), 0);
  EXPECT_TRUE(ended[0].tokens.empty());
  EXPECT_EQ(ended[0].end->reason, EndReason::length);
  EXPECT_TRUE(submit(scored(1, 0)).collector->wait()[0].scores.empty());
}

// The cache holds the prompt, but no logits. What a scored prompt leaves there is right.
TEST_F(PromptScores, DoNotDependOnTheCache) {
  open({.n_score_rows = 32, .options = {}});
  submit(sequence(140, 3)).collector->wait();
  const auto scores = submit(scored(140, 1)).collector->wait();
  EXPECT_EQ(scores[0].n_cached, 0);
  expect_scores(scores[0].scores, token_ids(*engine_, 140));
  open({.n_score_rows = 32, .options = {}});
  submit(scored(140, 1)).collector->wait();
  const auto after = submit(sequence(160, 5)).collector->wait();
  EXPECT_EQ(after[0].n_cached, 140);
  EXPECT_EQ(after[0].tokens, alone(sequence(160, 5), 0));
}

TEST_F(PromptScores, DoNotDependOnTheCompany) {
  for (const int64_t n_rows : {3, 64}) {
    open({.n_slots = 6, .n_ctx = 2048, .n_score_rows = n_rows, .options = {.n_batch = 96}});
    std::vector<Running> runs;
    for (int64_t i = 0; i < 6; ++i) runs.push_back(submit(scored(30 + 20 * i, i, 3, i)));
    for (int64_t i = 0; i < 6; ++i) runs.push_back(submit(sequence(40 + i, 20, i), "b"));
    for (int64_t i = 0; i < 6; ++i) {
      const auto ended = runs[static_cast<size_t>(i)].collector->wait();
      const auto all = token_ids(*engine_, 30 + 21 * i);
      expect_scores(ended[0].scores, std::span(all).subspan(static_cast<size_t>(i)));
    }
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_EQ(runs[static_cast<size_t>(6 + i)].collector->wait()[0].tokens, alone(sequence(40 + i, 20, i), i));
  }
}

TEST_F(PromptScores, AreTheSameInModelsWithWindowsAndStates) {
  for (const char* model : {"gemma2-dense", "mamba-dense"}) {
    open({.model = model, .n_cache_marks = 4, .n_score_rows = 20, .options = {}});
    const auto ended = submit(scored(200, 1)).collector->wait();
    expect_scores(ended[0].scores, token_ids(*engine_, 200));
  }
}

// The pool is too small for both, so the second one loses its slot among its scores.
TEST_F(PromptScores, APreemptionLosesAndRepeatsNone) {
  for (const bool reuses : {true, false}) {
    open({.n_slots = 2, .n_ctx = 256, .n_ubatch = 16, .n_score_rows = 0, .options = {.n_batch = 16}});
    server::SequenceSpec spec = scored(230, 1);
    spec.reuses_cache = reuses;
    const Running scoring = submit(std::move(spec), "a", 5);
    scoring.collector->wait_for_scores(20);
    const Running urgent = submit(sequence(20, 180), "b", 0);
    EXPECT_EQ(urgent.collector->wait()[0].tokens, alone(sequence(20, 180), 0));
    const auto ended = scoring.collector->wait();
    expect_scores(ended[0].scores, token_ids(*engine_, 230));
    EXPECT_EQ(ended[0].tokens, alone(sequence(230, 1), 0));
    EXPECT_GT(metrics_->preempted[static_cast<size_t>(server::PreemptionReason::memory)], 0u);
  }
}

}  // namespace
}  // namespace tessera
