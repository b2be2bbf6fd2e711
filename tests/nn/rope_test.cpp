#include "tessera/nn/rope.h"

#include <gtest/gtest.h>

#include "tests/support/testing.h"

namespace tessera::nn {
namespace {

TEST(RopeScaling, NamesAreKnown) {
  EXPECT_EQ(rope_scaling_from_name("none").value(), RopeScaling::none);
  EXPECT_EQ(rope_scaling_from_name("linear").value(), RopeScaling::linear);
  EXPECT_EQ(rope_scaling_from_name("yarn").value(), RopeScaling::yarn);
  EXPECT_ERROR(rope_scaling_from_name("dynamic"), "rope scaling 'dynamic' (known: none, linear, yarn, longrope)");
}

TEST(RopeTableParams, WithoutScalingTheFactorIsIgnored) {
  const RopeTableParams p = rope_table_params({.n_rot = 64, .freq_base = 5e5f, .factor = 8.0f, .attn_factor = 1.5f});
  EXPECT_EQ(p.n_rot, 64);
  EXPECT_EQ(p.freq_base, 5e5f);
  EXPECT_EQ(p.freq_scale, 1.0f);
  EXPECT_EQ(p.yarn_ext, 0.0f);
  EXPECT_EQ(p.magnitude, 1.5f);
}

TEST(RopeTableParams, LinearScalingDividesPositions) {
  const RopeTableParams p = rope_table_params({.n_rot = 64, .scaling = RopeScaling::linear, .factor = 4.0f});
  EXPECT_EQ(p.freq_scale, 0.25f);
  EXPECT_EQ(p.yarn_ext, 0.0f);
  EXPECT_EQ(p.magnitude, 1.0f);
}

// n_rot 128, base 10000, 4096 positions. The pair that turns t times is 64 ln(4096 / (2 pi t)) / ln(10000):
// for 32 turns 64 * 3.01410 / 9.21034 = 20.94, for 1 turn 64 * 6.47989 / 9.21034 = 45.03.
TEST(RopeTableParams, YarnByHand) {
  const RopeTableParams p =
      rope_table_params({.n_rot = 128, .scaling = RopeScaling::yarn, .factor = 4.0f, .original_context = 4096});
  EXPECT_EQ(p.freq_scale, 0.25f);
  EXPECT_EQ(p.yarn_ext, 1.0f);
  EXPECT_EQ(p.yarn_low, 20.0f);
  EXPECT_EQ(p.yarn_high, 46.0f);
  EXPECT_NEAR(p.magnitude, 1.1386294f, 1e-6f);  // 1 + 0.1 ln 4, rounded to f32 once or twice
}

TEST(RopeTableParams, TheRampStaysWithinThePairs) {
  // A context so short that no pair makes a full turn.
  const RopeTableParams p =
      rope_table_params({.n_rot = 8, .scaling = RopeScaling::yarn, .factor = 2.0f, .original_context = 4});
  EXPECT_EQ(p.yarn_low, 0.0f);
  EXPECT_EQ(p.yarn_high, 0.0f);
}

TEST(RopeTableParams, AMultiplierOfTheLogarithmDividesTheMagnitude) {
  const auto magnitude = [](float multiplier) {
    return rope_table_params({.n_rot = 64,
                              .scaling = RopeScaling::yarn,
                              .factor = 4.0f,
                              .original_context = 4096,
                              .attn_factor = 2.0f,
                              .yarn_log_multiplier = multiplier})
        .magnitude;
  };
  EXPECT_NEAR(magnitude(0.0f), 2 * 1.1386294f, 1e-6f);  // 1 + 0.1 ln 4
  EXPECT_EQ(magnitude(1.0f), 2.0f);
  EXPECT_NEAR(magnitude(0.5f), 2 * 1.1386294f / 1.0693147f, 1e-6f);
}

TEST(Rope, LongFactorsAreForContextsBeyondTheOriginal) {
  const Tensor few, many;
  const Rope rope{.config = {.original_context = 512}, .factors = &few, .long_factors = &many};
  EXPECT_EQ(rope.factors_for(512), &few);
  EXPECT_EQ(rope.factors_for(513), &many);
  EXPECT_EQ((Rope{.config = {.original_context = 512}, .factors = &few}.factors_for(513)), &few);
  // Contexts count in steps of 256.
  EXPECT_EQ((Rope{.config = {.original_context = 128}, .factors = &few, .long_factors = &many}.factors_for(1)), &many);
}

TEST(RopeTableParams, AnExtrapolationOfZeroIsLinearScaling) {
  const RopeTableParams p = rope_table_params(
      {.n_rot = 64, .scaling = RopeScaling::yarn, .factor = 4.0f, .original_context = 4096, .yarn_ext = 0.0f});
  EXPECT_EQ(p.freq_scale, 0.25f);
  EXPECT_EQ(p.yarn_ext, 0.0f);
  EXPECT_EQ(p.magnitude, 1.0f);
}

}  // namespace
}  // namespace tessera::nn
