// The schedules of generation by diffusion: numbers by hand, remainders, defaults, and values that are refused.
#include <cmath>
#include <numeric>

#include "tessera/engine/diffusion_plan.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using Counts = std::vector<int64_t>;

/// The number of revealed positions by step.
Counts counts_of(const DiffusionOptions& options) {
  const auto steps = plan_reveals(options);
  EXPECT_OK(steps);
  Counts counts;
  if (!steps) return counts;
  for (const RevealStep& step : *steps) counts.push_back(step.n_reveal);
  return counts;
}

TEST(DiffusionPlan, TimestepsFollowTheFormula) {
  // eps 0.5: the noise goes 1, 7/8, 6/8, 5/8, 4/8. The steps reveal 66/8, 58/7 and 50/6, and the last one all 42.
  EXPECT_EQ(counts_of({.n_predict = 66, .n_steps = 4, .eps = 0.5f}), (Counts{8, 8, 8, 42}));
  // The shares 1/8, 1/7 and 1/6 of 10, 9 and 8 are rounded down.
  EXPECT_EQ(counts_of({.n_predict = 10, .n_steps = 4, .eps = 0.5f}), (Counts{1, 1, 1, 7}));
  // eps 0.001 and 4 steps: 10 * 0.24975 = 2.4, 8 * 0.3329 = 2.6, 6 * 0.4990 = 2.99.
  EXPECT_EQ(counts_of({.n_predict = 10, .n_steps = 4, .eps = 0.001f}), (Counts{2, 2, 2, 4}));
  EXPECT_EQ(counts_of({.n_predict = 7, .n_steps = 1, .eps = 0.001f}), Counts{7});
}

TEST(DiffusionPlan, StepsThatRevealNothingAreLeftOut) {
  // 3 * 1/16 and 3 * 1/15 are below 1, up to 3 * 1/4. Shares of 1/3, 1/2 and 1 follow at the earliest.
  const Counts counts = counts_of({.n_predict = 3, .n_steps = 16, .eps = 0.001f});
  EXPECT_LE(counts.size(), 3u);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 3);
  EXPECT_EQ(counts_of({.n_predict = 4, .n_steps = 8, .block_length = 4}), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(counts_of({.n_predict = 0, .n_steps = 4, .eps = 0.001f}), Counts{});
  EXPECT_EQ(counts_of({.n_predict = 0, .n_steps = 4, .block_length = 4}), Counts{});
}

TEST(DiffusionPlan, BlocksGoFromLeftToRightAndTheFirstStepsTakeTheRest) {
  ASSERT_OK_AND_ASSIGN(const auto steps, plan_reveals({.n_predict = 20, .n_steps = 6, .block_length = 10}));
  ASSERT_EQ(steps.size(), 6u);
  const Counts n_reveal = {4, 3, 3, 4, 3, 3}, n_masked = {10, 6, 3, 10, 6, 3};
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].positions.begin, i < 3 ? 0 : 10);
    EXPECT_EQ(steps[i].positions.end, i < 3 ? 10 : 20);
    EXPECT_EQ(steps[i].n_reveal, n_reveal[i]) << i;
    EXPECT_EQ(steps[i].n_masked, n_masked[i]) << i;
  }
}

TEST(DiffusionPlan, EveryPositionIsRevealed) {
  for (const int64_t n : {1, 2, 31, 64, 100})
    for (const int64_t n_steps : {1, 2, 5, 64, 300})
      for (const float eps : {0.001f, 0.3f, 0.999f}) {
        const Counts counts = counts_of({.n_predict = n, .n_steps = n_steps, .eps = eps});
        EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), n) << n_steps << ", " << eps;
        EXPECT_LE(std::ssize(counts), n_steps);
      }
}

TEST(DiffusionPlan, RefusesWhatDoesNotDivide) {
  EXPECT_ERROR(plan_reveals({.n_predict = 100, .n_steps = 4, .block_length = 32}),
               "a text of 100 tokens is not whole blocks of 32");
  EXPECT_ERROR(plan_reveals({.n_predict = 96, .n_steps = 4, .block_length = 32}),
               "4 steps do not divide among 3 blocks of 32 tokens");
}

TEST(DiffusionPlan, RefusesValuesOutOfTheirRange) {
  EXPECT_ERROR(plan_reveals({.n_predict = 8, .n_steps = 4}), "want exactly one of them");
  EXPECT_ERROR(plan_reveals({.n_predict = 8, .n_steps = 4, .eps = 0.1f, .block_length = 4}),
               "want exactly one of them");
  EXPECT_ERROR(plan_reveals({.n_predict = 8, .n_steps = 4, .eps = 1.0f}), "eps 1, want a number above 0 and below 1");
  EXPECT_ERROR(plan_reveals({.n_predict = 8, .n_steps = 4, .eps = std::nanf("")}), "eps nan");
  EXPECT_ERROR(plan_reveals({.n_predict = 8, .n_steps = 0, .eps = 0.1f}), "steps 0, want 1 to 1048576");
  EXPECT_ERROR(plan_reveals({.n_predict = -1, .n_steps = 1, .eps = 0.1f}), "length -1, want 0 to");
  EXPECT_ERROR(plan_reveals({.n_predict = 8, .n_steps = 1, .eps = 0.1f, .alg_temp = -1.0f}), "algorithm -1, want 0 to");
  EXPECT_ERROR(plan_reveals({.n_predict = 8, .n_steps = 1, .eps = 0.1f, .cfg_scale = std::nanf("")}), "scale nan");
  EXPECT_ERROR(plan_reveals({.n_predict = 8, .n_steps = 1, .eps = 0.1f, .gumbel = 2000.0f}), "Gumbel temperature 2000");
}

TEST(DiffusionPlan, DefaultsDependOnTheShift) {
  const auto with = [](int64_t n, bool shifts) { return with_default_schedule({.n_predict = n}, shifts); };
  EXPECT_EQ(with(128, true).eps, 0.001f);
  EXPECT_EQ(with(128, true).block_length, 0);
  EXPECT_EQ(with(128, true).n_steps, 128);
  EXPECT_EQ(with(40, true).n_steps, 40);
  EXPECT_EQ(with(1000, true).n_steps, 128);
  EXPECT_EQ(with(128, false).eps, 0.0f);
  EXPECT_EQ(with(128, false).block_length, 32);
  EXPECT_EQ(with(128, false).n_steps, 128);
  EXPECT_EQ(with(1024, false).n_steps, 128);  // 4 for each of 32 blocks
  EXPECT_EQ(with(8192, false).n_steps, 256);  // one for each block
  EXPECT_EQ(with(100, false).block_length, 25);
  EXPECT_EQ(with(100, false).n_steps, 100);
  for (int64_t n = 0; n < 300; ++n)
    for (const bool shifts : {false, true}) EXPECT_OK(plan_reveals(with(n, shifts)));
}

TEST(DiffusionPlan, GivenSchedulesStay) {
  const DiffusionOptions blocks = with_default_schedule({.n_predict = 64, .block_length = 16}, true);
  EXPECT_EQ(blocks.eps, 0.0f);
  EXPECT_EQ(blocks.n_steps, 64);
  const DiffusionOptions timesteps = with_default_schedule({.n_predict = 64, .n_steps = 5, .eps = 0.01f}, false);
  EXPECT_EQ(timesteps.block_length, 0);
  EXPECT_EQ(timesteps.n_steps, 5);
}

TEST(DiffusionPlan, TheDefaultLengthFitsInTheRoom) {
  EXPECT_EQ(default_diffusion_length(1000, 0), 128);
  EXPECT_EQ(default_diffusion_length(57, 0), 57);
  EXPECT_EQ(default_diffusion_length(0, 0), 0);
  EXPECT_EQ(default_diffusion_length(57, 16), 48);
  EXPECT_EQ(default_diffusion_length(10, 16), 0);
  EXPECT_EQ(default_diffusion_length(1000, 200), 200);
}

}  // namespace
}  // namespace tessera
