// Both versions of mirostat: values computed by hand, and a loop in which the surprise must settle at tau.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

/// The average surprise of n sampled tokens, in bits under the whole distribution. The first fifth is settling time and
/// not counted.
double mean_surprise(int32_t version, float tau, int n) {
  SamplerParams params = seeded();
  params.mirostat = version;
  params.mirostat_tau = tau;
  params.temp = 1;
  constexpr size_t kTokens = 4000;
  auto chain = Chain::create(params, std::make_shared<TestVocab>(kTokens), 64);
  EXPECT_OK(chain);
  // A Zipf law of exponent 1, like that of words, disturbed for each token. The entropy is about 9 bits. The most
  // probable token has 3.2 bits, and no truncation can reduce the surprise below that.
  Rng rng(61);
  std::vector<float> logits(kTokens);
  double sum = 0;
  for (int step = 0; step < n; ++step) {
    for (size_t i = 0; i < kTokens; ++i) logits[i] = -std::log(static_cast<float>(i + 1)) + rng.next_float(-0.5f, 0.5f);
    const auto probs = softmax_of(std::vector<double>(logits.begin(), logits.end()));
    const auto token = (*chain)->sample(logits);
    EXPECT_OK(token);
    if (step >= n / 5) sum -= std::log2(probs[static_cast<size_t>(*token)]);
  }
  return sum / (n - n / 5);
}

// mu moves by eta * (surprise - tau), so the sum of the errors since settling is the movement of mu / eta. With mu
// within 10 of its value at the start of counting and eta 0.1, the sum is at most 100 bits over 960 tokens, 0.1 each.
// In practice it is a quarter of that.
constexpr double kSurpriseTolerance = 0.1;

TEST(Mirostat, SurpriseSettlesAtTau) {
  EXPECT_NEAR(mean_surprise(1, 4.5f, 1200), 4.5, kSurpriseTolerance);
  EXPECT_NEAR(mean_surprise(1, 7, 1200), 7, kSurpriseTolerance);
}

TEST(MirostatV2, SurpriseSettlesAtTau) {
  EXPECT_NEAR(mean_surprise(2, 4.5f, 1200), 4.5, kSurpriseTolerance);
  EXPECT_NEAR(mean_surprise(2, 7, 1200), 7, kSurpriseTolerance);
}

TEST(MirostatV2, FirstTokenKeepsTheSurpriseBelowTwiceTau) {
  // mu starts at 2: probabilities of 1/4 and more stay.
  const SamplerParams params = {.mirostat = 2, .mirostat_tau = 1};
  const std::vector<double> probs = {0.2, 0.3, 0.24, 0.26};
  EXPECT_EQ(ids_of(apply(make_mirostat_v2, params, logits_of(probs))), (std::vector<int32_t>{1, 3}));
}

TEST(MirostatV2, OneTokenStaysWhereNoneIsUnsurprising) {
  const SamplerParams params = {.mirostat = 2, .mirostat_tau = 0.1f};
  EXPECT_EQ(ids_of(apply(make_mirostat_v2, params, {1, 1.5f, 1})), std::vector{1});
}

TEST(Mirostat, FirstKFollowsTheZipfEstimate) {
  // p proportional to rank^-2 over 1000 tokens: s = 2, epsilon 1, k = (2^(2 tau) / (1 - 1/1000)) ^ (1/2)
  // = 8.004.
  std::vector<float> logits;
  for (int rank = 1; rank <= 1000; ++rank) logits.push_back(-2 * std::log(static_cast<float>(rank)));
  EXPECT_EQ(apply(make_mirostat, {.mirostat = 1, .mirostat_tau = 3}, logits).size(), 8u);
}

TEST(Mirostat, SurvivesDistributionsWithoutAZipfLaw) {
  const SamplerParams params = {.mirostat = 1};
  for (const std::vector<float>& logits : {std::vector<float>(8, 1.0f), std::vector<float>{5},
                                           std::vector<float>{kInf, kInf, 1}, std::vector<float>{3e38f, -3e38f}}) {
    EXPECT_GE(apply(make_mirostat, params, logits).size(), 1u);
  }
}

TEST(Mirostat, SurvivesEndlessCertainty) {
  // Without any surprise, mu grows without bound.
  for (const int32_t version : {1, 2}) {
    SamplerParams params = seeded();
    params.mirostat = version;
    params.mirostat_tau = 100;
    params.mirostat_eta = 10;
    ASSERT_OK_AND_ASSIGN(const auto chain, Chain::create(params, std::make_shared<TestVocab>(4), 16));
    for (int i = 0; i < 1000; ++i) {
      ASSERT_OK_AND_ASSIGN(const int32_t token, chain->sample(std::vector<float>{0, 5000, 0, 0}));
      ASSERT_EQ(token, 1);
    }
  }
}

TEST(Mirostat, OneCandidateUsesNoRandomNumber) {
  for (const Make make : {make_mirostat, make_mirostat_v2}) {
    Candidates candidates;
    candidates.assign(std::vector<float>{-kInf, 4});
    SeededRng rng(3), fresh(3);
    make_with(make, {})->apply(candidates, History(0), rng);
    EXPECT_EQ(candidates.selected()->id, 1);
    EXPECT_EQ(rng.next_double(), fresh.next_double());
  }
}

TEST(Mirostat, ResetStartsTheControlOver) {
  for (const int32_t version : {1, 2}) {
    SamplerParams params = seeded();
    params.mirostat = version;
    ASSERT_OK_AND_ASSIGN(const auto chain, Chain::create(params, std::make_shared<TestVocab>(500), 16));
    const auto draw = [&] {
      Rng rng(62);
      std::vector<int32_t> tokens;
      for (int i = 0; i < 50; ++i) tokens.push_back(chain->sample(random_logits(500, rng)).value_or(-1));
      return tokens;
    };
    const auto first = draw();
    chain->reset();
    EXPECT_EQ(draw(), first);
  }
}

}  // namespace
}  // namespace tessera::sample
