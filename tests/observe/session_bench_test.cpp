// Repetitions of a session bench: the tokens that they compute, and their accounts.
#include "tessera/observe/session_bench.h"

#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using observe::BenchLoad;
using observe::BenchSeconds;
using observe::SessionBench;

const CancelToken kNoCancel;

// A session with exactly the context that the load needs: one token more is an error.
class SessionBenchTest : public ::testing::Test {
 protected:
  void open(const BenchLoad& load) {
    ASSERT_OK_AND_ASSIGN(engine_, testing::load_engine(testing::story_model()));
    ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, {.n_ctx = load.n_ctx(), .n_ubatch = 4}));
  }
  int64_t n_stored() const { return session_->max_position(0).value_or(-1) + 1; }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionBenchTest, RepetitionsComputeTheLoadAfterTheSameDepth) {
  const BenchLoad load{.n_prompt = 10, .n_gen = 3, .n_depth = 51, .n_batch = 5};
  ASSERT_EQ(load.n_ctx(), 64);
  open(load);
  SessionBench bench(*session_, load, kNoCancel);
  ASSERT_OK(bench.fill());
  EXPECT_EQ(n_stored(), 51);
  for (int i = 0; i < 2; ++i) {
    std::vector<int64_t> steps;
    session_->observe_steps([&](const StepView& step) { steps.push_back(step.n_tokens); });
    ASSERT_OK_AND_ASSIGN(const BenchSeconds seconds, bench.run());
    session_->observe_steps({});
    EXPECT_EQ(steps, (std::vector<int64_t>{4, 1, 4, 1, 1, 1, 1}));  // calls of 5 tokens in micro-batches of 4
    EXPECT_EQ(n_stored(), 64);
    EXPECT_GT(seconds.prefill, 0);
    EXPECT_GT(seconds.decode, 0);
    EXPECT_DOUBLE_EQ(seconds.total(), seconds.prefill + seconds.decode);
  }
}

TEST_F(SessionBenchTest, APhaseWithoutTokensIsNotExplained) {
  for (const auto& [load, name] :
       {std::pair(BenchLoad{.n_prompt = 64}, "prefill"), {BenchLoad{.n_gen = 64}, "decode"}}) {
    open(load);
    SessionBench bench(*session_, load, kNoCancel);
    ASSERT_OK_AND_ASSIGN(const auto phases, bench.explain({{}}));
    ASSERT_EQ(phases.size(), 1u);
    EXPECT_EQ(phases[0].name, name);
    EXPECT_EQ(phases[0].n_tokens, 64);
    const auto& parts = phases[0].account.parts;
    const auto attention = std::ranges::find(parts, "attention", &observe::WorkPart::name);
    ASSERT_NE(attention, parts.end());
    EXPECT_EQ(attention->macs, 64.0 * 65 / 2 * 5 * 8 * 16);
  }
}

TEST_F(SessionBenchTest, StopsWhenCancelled) {
  CancelToken cancel;
  const BenchLoad load{.n_prompt = 8};
  open(load);
  SessionBench bench(*session_, load, cancel);
  ASSERT_OK(bench.run());
  cancel.cancel();
  EXPECT_ERROR(bench.run(), "cancelled");
}

}  // namespace
}  // namespace tessera
