// Guesses in the steps of the scheduler: the tokens are those without, for plain, windowed and recurrent models.
#include <gtest/gtest.h>

#include "tessera/engine/speculative/match_drafter.h"
#include "tests/server/scheduler_support.h"
#include "tests/support/draft_file.h"
#include "tests/support/head_model.h"

namespace tessera {
namespace {

using namespace testing;

class SpeculationTest : public SchedulerTest {
 protected:
  void open_with_guesses(const std::string& model, int32_t n_slots, int64_t n_most = 15) {
    server::SchedulerOptions options;
    options.speculation = {.kinds = {DraftKind::ngram, DraftKind::suffix}, .n_most = n_most, .adapts = false};
    open({.model = model, .n_cache_marks = model.empty() ? 0 : 8, .n_slots = n_slots, .options = options});
  }
};

TEST_F(SpeculationTest, TokensAreThoseWithout) {
  for (const char* model : {"", "gemma3-dense", "gpt-oss-moe", "mamba-dense", "jamba-dense"}) {
    SCOPED_TRACE(model);
    open_with_guesses(model, 4);
    struct Run {
      std::vector<int32_t> want{};
      Running running{};
    };
    std::vector<Run> runs;
    for (int64_t i = 0; i < 12; ++i) {
      const int64_t seed = i % 3 == 0 ? 0 : i;
      auto spec = sequence(5 + i, 90, seed, i % 4);
      std::vector<int32_t> want = alone(spec, seed);
      runs.push_back({.want = std::move(want), .running = submit(std::move(spec))});
    }
    int64_t n_guessed = 0, n_right = 0;
    for (const Run& run : runs) {
      const auto sequence = run.running.collector->wait().front();
      EXPECT_EQ(sequence.tokens, run.want);
      EXPECT_EQ(sequence.end->reason, server::EndReason::length);
      n_guessed += sequence.end->n_guessed;
      n_right += sequence.end->n_guessed_right;
    }
    EXPECT_GT(n_right, 0);
    EXPECT_GE(n_guessed, n_right);
    EXPECT_EQ(metrics_->guesses.load(), static_cast<uint64_t>(n_guessed));
    EXPECT_EQ(metrics_->right_guesses.load(), static_cast<uint64_t>(n_right));
    EXPECT_LE(metrics_->drafts.load(), metrics_->guesses.load());
    wait_until_idle();
  }
}

TEST_F(SpeculationTest, ADraftModelServesAllSlots) {
  open({});  // loads the model
  ASSERT_OK_AND_ASSIGN(const auto draft, Session::create(engine_, {.n_ctx = 600, .n_ubatch = 64, .n_sequences = 3}));
  server::SchedulerOptions options;
  options.speculation = {.kinds = {DraftKind::suffix, DraftKind::model}, .adapts = false};
  options.draft = draft.get();
  open({.n_slots = 3, .options = options});
  std::vector<std::pair<std::vector<int32_t>, Running>> runs;
  for (int64_t i = 0; i < 6; ++i) {
    auto spec = sequence(4 + i, 60, 0, i);
    std::vector<int32_t> want = alone(spec, 0);
    runs.emplace_back(std::move(want), submit(std::move(spec)));
  }
  for (const auto& [want, running] : runs) EXPECT_EQ(running.collector->wait().front().tokens, want);
  EXPECT_TRUE(draft->max_position(0).has_value());  // it was asked
  wait_until_idle();
  scheduler_.reset();
}

TEST_F(SpeculationTest, APredictionHeadServesAllSlots) {
  for (const char* model : {"glm4moe-moe", "qwen35"}) {
    SCOPED_TRACE(model);
    const std::string path = head_model(model);
    server::SchedulerOptions options;
    options.speculation = {.kinds = {DraftKind::head}, .adapts = false};
    open({.head_model = path, .n_slots = 3, .n_ubatch = 16, .options = options});
    std::vector<std::pair<std::vector<int32_t>, Running>> runs;
    for (int64_t i = 0; i < 7; ++i) {
      const int64_t seed = i % 2 == 0 ? 0 : i;
      auto spec = sequence(4 + 5 * i, 50, seed, i);
      std::vector<int32_t> want = alone(spec, seed);
      runs.emplace_back(std::move(want), submit(std::move(spec)));
    }
    for (const auto& [want, running] : runs) EXPECT_EQ(running.collector->wait().front().tokens, want);
    wait_until_idle();
    EXPECT_GT(metrics_->guesses.load(), 7 * 50u);
    EXPECT_GT(metrics_->right_guesses.load(), 0u);
  }
}

TEST_F(SpeculationTest, ADraftModelThatReadsHiddenStatesServesAllSlots) {
  server::SchedulerOptions options;
  options.speculation = {.kinds = {DraftKind::model}, .adapts = false};
  open({.model = "llama-dense",
        .draft_file = eagle_file(arch_model("llama-dense")),
        .n_slots = 3,
        .n_ubatch = 16,
        .options = options});
  std::vector<std::pair<std::vector<int32_t>, Running>> runs;
  for (int64_t i = 0; i < 7; ++i) {
    const int64_t seed = i % 2 == 0 ? 0 : i;
    auto spec = sequence(4 + 5 * i, 50, seed, i);
    std::vector<int32_t> want = alone(spec, seed);
    runs.emplace_back(std::move(want), submit(std::move(spec)));
  }
  for (const auto& [want, running] : runs) EXPECT_EQ(running.collector->wait().front().tokens, want);
  wait_until_idle();
  EXPECT_GT(metrics_->guesses.load(), 7 * 50u);
}

TEST_F(SpeculationTest, AHeadThatComputesTheModelIsRightInAllSlots) {
  server::SchedulerOptions options;
  options.speculation = {.kinds = {DraftKind::head}, .n_most = 6, .adapts = false};
  open({.head_model = copying_head_model(), .n_slots = 2, .n_ubatch = 16, .options = options});
  std::vector<Running> runs;
  for (int64_t i = 0; i < 4; ++i) runs.push_back(submit(sequence(6 + i, 60, 0, i)));
  for (const Running& run : runs) {
    const auto sequence = run.collector->wait().front();
    EXPECT_GT(sequence.end->n_guessed, 30);
    EXPECT_EQ(sequence.end->n_guessed_right, sequence.end->n_guessed);
  }
  wait_until_idle();
}

// The second text is the first one again, so that all of it can be copied from there.
TEST_F(SpeculationTest, TextsOfOtherSequencesAreCopied) {
  for (const bool is_salted : {false, true}) {
    server::SchedulerOptions options;
    options.speculation = {.kinds = {DraftKind::suffix}, .adapts = false};
    open({.n_slots = 1, .options = options});
    std::vector<int64_t> right;
    for (int i = 0; i < 3; ++i) {
      auto spec = sequence(8, 80, 5);
      if (is_salted) spec.cache_salt = "s" + std::to_string(i);
      right.push_back(submit(std::move(spec)).collector->wait().front().end->n_guessed_right);
    }
    if (is_salted) {
      EXPECT_LT(right[2], 40);  // texts that share nothing are not copied
    } else {
      EXPECT_GT(right[2], 50);
    }
    wait_until_idle();
  }
}

TEST_F(SpeculationTest, AnEndWithinTheGuessesLeavesTheSlotClean) {
  for (const int64_t n_predict : {1, 2, 5, 17}) {
    open_with_guesses("", 2);
    for (int i = 0; i < 4; ++i) {
      auto spec = sequence(8, n_predict, 0);
      const std::vector<int32_t> want = alone(spec, 0);
      EXPECT_EQ(submit(std::move(spec)).collector->wait().front().tokens, want);
    }
    wait_until_idle();
    scheduler_.reset();
    for (const int32_t slot : {0, 1}) EXPECT_FALSE(session_->max_position(slot).has_value());
  }
}

TEST_F(SpeculationTest, AFullContextEndsOrShiftsAtTheSameToken) {
  for (const bool shifts : {false, true}) {
    std::vector<std::vector<int32_t>> texts;
    for (const bool guesses : {false, true}) {
      server::SchedulerOptions options;
      options.slot_context = 60;
      if (guesses) options.speculation = {.kinds = {DraftKind::suffix}, .adapts = false};
      open({.n_slots = 2, .n_ctx = 128, .options = options});
      auto spec = sequence(8, 150, 0);
      spec.shifts_context = shifts;
      texts.push_back(submit(std::move(spec)).collector->wait().front().tokens);
      wait_until_idle();
    }
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_EQ(texts[0].size(), shifts ? 150u : 52u);
  }
}

}  // namespace
}  // namespace tessera
