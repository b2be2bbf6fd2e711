// The choices of a diffusion step on made-up logits, compared with the formulas in double precision.
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "tessera/engine/diffusion_choice.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using Algorithm = DiffusionAlgorithm;

constexpr int32_t kMaskId = 4;
// Probabilities of tokens 0 to 3 without the mask, whose logit is the greatest.
const std::vector<double> kShares = {0.1, 0.5, 0.15, 0.25};
// Logits are floats, and so is the sum's rounding.
constexpr double kFloatError = 1e-6;

std::vector<float> logits_of_shares(const std::vector<double>& shares) {
  std::vector<float> logits;
  for (const double p : shares) logits.push_back(static_cast<float>(std::log(p)));
  logits.push_back(5.0f);  // of the mask
  return logits;
}

DiffusionOptions plain_options(Algorithm algorithm, float temp = 1.0f) {
  DiffusionOptions options{.n_steps = 1, .eps = 0.1f, .algorithm = algorithm};
  options.sampling.seed = 1;
  options.sampling.top_k = 0;
  options.sampling.top_p = 1;
  options.sampling.temp = temp;
  return options;
}

MaskChoice choice_of(const DiffusionOptions& options, const std::vector<float>& logits, uint64_t seed = 1) {
  MaskFiller filler(options, kMaskId);
  sample::SeededRng rng(seed);
  const auto choice = filler.choose(logits, rng);
  EXPECT_OK(choice);
  return choice.value_or(MaskChoice{});
}

double negative_entropy_of(const std::vector<double>& p) {
  double sum = 0;
  for (const double x : p) sum += x * std::log(x);
  return sum;
}

TEST(DiffusionChoice, WithoutATemperatureTheBestTokenIsChosen) {
  const auto logits = logits_of_shares(kShares);
  const MaskChoice confidence = choice_of(plain_options(Algorithm::confidence, 0), logits);
  EXPECT_EQ(confidence.token, 1);
  EXPECT_NEAR(confidence.confidence, 0.5, kFloatError);
  EXPECT_NEAR(choice_of(plain_options(Algorithm::margin, 0), logits).confidence, 0.5 - 0.25, kFloatError);
  EXPECT_NEAR(choice_of(plain_options(Algorithm::entropy, 0), logits).confidence, negative_entropy_of(kShares),
              kFloatError);
}

TEST(DiffusionChoice, TheMeasuresAreThoseOfTheFilteredDistribution) {
  const auto logits = logits_of_shares(kShares);
  DiffusionOptions options = plain_options(Algorithm::entropy, 0.5f);
  options.sampling.top_k = 3;
  // Temperature 0.5 squares the shares of the three best.
  const double sum = 0.25 + 0.0625 + 0.0225;
  const std::vector<double> p = {0.25 / sum, 0.0625 / sum, 0.0225 / sum};
  EXPECT_NEAR(choice_of(options, logits).confidence, negative_entropy_of(p), kFloatError);
  options.algorithm = Algorithm::margin;
  EXPECT_NEAR(choice_of(options, logits).confidence, p[0] - p[1], kFloatError);
  options.sampling.top_k = 0;
  options.sampling.top_p = 0.7f;  // 0.5 and 0.25 suffice
  options.sampling.temp = 1;
  EXPECT_NEAR(choice_of(options, logits).confidence, (0.5 - 0.25) / 0.75, kFloatError);
  options.sampling.top_k = 1;
  EXPECT_NEAR(choice_of(options, logits).confidence, 1.0, kFloatError);
}

TEST(DiffusionChoice, DrawsFollowTheDistributionAndConfidenceIsThatOfTheToken) {
  MaskFiller filler(plain_options(Algorithm::confidence), kMaskId);
  sample::SeededRng rng(7);
  const auto logits = logits_of_shares(kShares);
  constexpr int kDraws = 20000;
  std::vector<int> counts(kShares.size());
  for (int i = 0; i < kDraws; ++i) {
    const auto choice = filler.choose(logits, rng);
    ASSERT_OK(choice);
    ASSERT_LT(choice->token, kMaskId);
    ++counts[static_cast<size_t>(choice->token)];
    ASSERT_NEAR(choice->confidence, kShares[static_cast<size_t>(choice->token)], kFloatError);
  }
  // Five standard deviations of a share of 0.5.
  for (size_t i = 0; i < kShares.size(); ++i)
    EXPECT_NEAR(counts[i] / double{kDraws}, kShares[i], 5 * std::sqrt(0.25 / kDraws)) << i;
}

TEST(DiffusionChoice, RandomConfidenceIsAnotherNumberForEachMask) {
  MaskFiller filler(plain_options(Algorithm::random, 0), kMaskId);
  sample::SeededRng rng(7), same(7);
  const auto logits = logits_of_shares(kShares);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(filler.choose(logits, rng)->confidence, same.next_double());
}

TEST(DiffusionChoice, EqualLogitsChooseTheLowerToken) {
  EXPECT_EQ(choice_of(plain_options(Algorithm::confidence, 0), {1, 2, 2, 0, 9}).token, 1);
}

TEST(DiffusionChoice, LogitsWithoutATokenAreAnError) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  MaskFiller filler(plain_options(Algorithm::confidence), kMaskId);
  sample::SeededRng rng(1);
  EXPECT_ERROR(filler.choose(std::vector<float>{-kInf, std::nanf(""), -kInf, -kInf, 1}, rng), "no token to choose");
  EXPECT_EQ(filler.choose(std::vector<float>{-kInf, std::nanf(""), -kInf, 3, 1}, rng)->token, 3);
}

// LLaDA: the greatest exp(logit) / (-ln U)^temperature, with a U for each token.
TEST(DiffusionChoice, GumbelNoiseIsThatOfTheFormula) {
  const auto logits = logits_of_shares(kShares);
  for (const float temperature : {0.1f, 1.0f, 3.0f})
    for (uint64_t seed = 0; seed < 50; ++seed) {
      DiffusionOptions options = plain_options(Algorithm::confidence, 0.5f);
      options.gumbel = temperature;
      sample::SeededRng rng(seed);
      size_t best = 0;
      double greatest = 0;
      for (size_t i = 0; i < kShares.size(); ++i) {
        const double noisy = std::exp(double{logits[i]}) / std::pow(-std::log(rng.next_double()), temperature);
        if (noisy > greatest) greatest = noisy, best = i;
      }
      const MaskChoice choice = choice_of(options, logits, seed);
      EXPECT_EQ(choice.token, static_cast<int32_t>(best)) << temperature << ", " << seed;
      // The confidence is that without noise, at the sampler's temperature.
      const double sum = 0.01 + 0.25 + 0.0225 + 0.0625;
      EXPECT_NEAR(choice.confidence, kShares[best] * kShares[best] / sum, kFloatError);
    }
}

TEST(DiffusionChoice, GuidanceIsTheFormula) {
  const std::vector<float> c = {1, -2, 0.5f, 3}, u = {0.5f, 1, 0.25f, 3};
  for (const double scale : {0.5, 1.0, 2.5}) {
    std::vector<float> out(c.size());
    guide(c, u, scale, out);
    for (size_t i = 0; i < c.size(); ++i)
      EXPECT_EQ(out[i], static_cast<float>(double{u[i]} + (scale + 1) * (double{c[i]} - double{u[i]})));
  }
}

TEST(DiffusionMasks, TheGreatestConfidenceIsRevealedAndTiesChooseTheLowerPosition) {
  sample::SeededRng rng(1);
  const std::vector<double> confidence = {0.2, 0.9, 0.2, 0.7, 0.9, 0.7};
  EXPECT_EQ(choose_masks(confidence, 1, 0, rng), (std::vector<size_t>{1}));
  EXPECT_EQ(choose_masks(confidence, 3, 0, rng), (std::vector<size_t>{1, 3, 4}));
  EXPECT_EQ(choose_masks(confidence, 5, 0, rng), (std::vector<size_t>{0, 1, 3, 4, 5}));
  EXPECT_EQ(choose_masks(confidence, 6, 0, rng).size(), 6u);
  EXPECT_EQ(choose_masks(confidence, 9, 1, rng).size(), 6u);
  EXPECT_EQ(choose_masks(confidence, 0, 0, rng).size(), 0u);
}

TEST(DiffusionMasks, DrawsAreWithoutReplacementAndFollowTheSoftmax) {
  sample::SeededRng rng(3);
  const std::vector<double> confidence = {-1.0, 0.0, 0.5, -0.25};
  constexpr double kTemp = 0.7;
  std::vector<double> weights;
  for (const double c : confidence) weights.push_back(std::exp(c / kTemp));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  constexpr int kDraws = 20000;
  std::map<std::vector<size_t>, int> one, two;
  for (int i = 0; i < kDraws; ++i) {
    ++one[choose_masks(confidence, 1, kTemp, rng)];
    ++two[choose_masks(confidence, 2, kTemp, rng)];
  }
  const double tolerance = 5 * std::sqrt(0.25 / kDraws);
  for (size_t a = 0; a < confidence.size(); ++a) {
    EXPECT_NEAR(one[{a}] / double{kDraws}, weights[a] / sum, tolerance) << a;
    for (size_t b = a + 1; b < confidence.size(); ++b) {
      const double p =
          weights[a] / sum * weights[b] / (sum - weights[a]) + weights[b] / sum * weights[a] / (sum - weights[b]);
      const std::vector<size_t> pair = {a, b};
      EXPECT_NEAR(two[pair] / double{kDraws}, p, tolerance) << a << ", " << b;
    }
  }
  EXPECT_EQ(two.size(), 6u);  // all pairs are of two positions
}

}  // namespace
}  // namespace tessera
