// Guesses in the steps of the scheduler: the tokens are those without, for plain, windowed and recurrent models.
#include <gtest/gtest.h>

#include "tessera/engine/speculative/match_drafter.h"
#include "tests/server/scheduler_support.h"

namespace tessera {
namespace {

using namespace testing;

class SpeculationTest : public SchedulerTest {
 protected:
  void open_with_guesses(const std::string& model, int32_t n_slots, int64_t n_most = 15) {
    server::SchedulerOptions options;
    options.speculation = {.kinds = {DraftKind::ngram, DraftKind::suffix}, .n_most = n_most};
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

}  // namespace
}  // namespace tessera
