// adaptive_p: one step by hand, the memory of drawn tokens, and the cases in which it changes nothing.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

/// Half of the probability for token 0, 0.3 for token 1, 0.2 for token 2.
std::vector<float> adaptive_logits() { return logits_of({0.5, 0.3, 0.2}); }

SamplerParams adaptive(float target, float decay = 0.9f) {
  SamplerParams params = seeded();
  params.order = {SamplerKind::adaptive_p};
  params.adaptive_target = target;
  params.adaptive_decay = decay;
  return params;
}

/// The probabilities by the definition.
std::vector<double> adapted(double target) {
  std::vector<double> logits;
  for (const double p : {0.5, 0.3, 0.2}) {
    const double d = std::abs(p - target) / 0.3;
    logits.push_back(5 - 10 * d * d / (1 + d));
  }
  return softmax_of(logits);
}

/// Samples once and expects the probabilities of a target. Float logits near -5 are rounded by 2^-22.
void expect_adapted(Chain& chain, double target) {
  ASSERT_OK(chain.sample(adaptive_logits()));
  const auto want = adapted(target);
  for (const Candidate& item : chain.top_candidates(3))
    EXPECT_NEAR(item.prob, want[static_cast<size_t>(item.id)], 1e-6) << "token " << item.id;
}

std::unique_ptr<Chain> adaptive_chain(const SamplerParams& params, size_t n_tokens = 3) {
  auto chain = Chain::create(params, std::make_shared<TestVocab>(n_tokens), 64);
  EXPECT_OK(chain);
  return chain ? std::move(*chain) : nullptr;
}

TEST(AdaptiveP, HandCase) {
  // The target is 0.2. Token 2 is at it: logit 5. Token 1 is 0.1 away: d = 1/3, 5 - 10/9 / (4/3) = 25/6. Token 0 is 0.3
  // away: d = 1, 5 - 10/2 = 0.
  const auto probs = apply(make_adaptive_p, adaptive(0.2f), adaptive_logits());
  const double sum = std::exp(5.0) + std::exp(25.0 / 6) + 1;
  EXPECT_NEAR(probs.at(2), std::exp(5.0) / sum, 1e-6);
  EXPECT_NEAR(probs.at(1), std::exp(25.0 / 6) / sum, 1e-6);
  EXPECT_NEAR(probs.at(0), 1 / sum, 1e-6);
}

TEST(AdaptiveP, MovesTheTargetAgainstTheDrawnTokens) {
  const auto chain = adaptive_chain(adaptive(0.3f, 0.5f));
  expect_adapted(*chain, 0.3);
  // The sampler counts a token only if it drew it, so this test accepts the tokens that it drew. The average starts as
  // if p had always been 0.3: sums 0.6 of weight 2.
  double sum = 0.6, weight = 2;
  const double p[] = {0.5, 0.3, 0.2};
  for (int i = 0; i < 10; ++i) {
    ASSERT_OK_AND_ASSIGN(const int32_t token, chain->sample(adaptive_logits()));
    ASSERT_OK(chain->accept(token));
    sum = p[token] + 0.5 * sum;
    weight = 1 + 0.5 * weight;
    expect_adapted(*chain, std::clamp(0.6 - sum / weight, 0.0, 1.0));
  }
}

TEST(AdaptiveP, CountsOnlyTokensThatItDrew) {
  const auto chain = adaptive_chain(adaptive(0.3f));
  ASSERT_OK(chain->accept_prompt(0));
  expect_adapted(*chain, 0.3);
  const int32_t drawn = chain->sample(adaptive_logits()).value_or(-1);
  ASSERT_OK(chain->accept((drawn + 1) % 3));  // a forced token
  ASSERT_OK(chain->accept(drawn));            // no longer the drawn one
  expect_adapted(*chain, 0.3);
}

TEST(AdaptiveP, TheTargetStaysBetweenZeroAndOne) {
  // All tokens have p = 1, so the average tends to 1. Then 2 * 0.1 - 1 is clamped to 0, not reflected.
  const auto chain = adaptive_chain(adaptive(0.1f, 0));
  ASSERT_OK_AND_ASSIGN(const int32_t token, chain->sample(std::vector<float>{9, -kInf, -kInf}));
  ASSERT_OK(chain->accept(token));
  expect_adapted(*chain, 0);
}

TEST(AdaptiveP, DrawsFromTheProbabilitiesWithoutATarget) {
  const auto probs = apply(make_adaptive_p, adaptive(-1), adaptive_logits());
  EXPECT_NEAR(probs.at(0), 0.5, 2e-7);
  EXPECT_NEAR(probs.at(2), 0.2, 2e-7);
}

TEST(AdaptiveP, IsOffUnlessItIsNamed) {
  SamplerParams params = adaptive(0.2f);
  params.order = {};
  const auto chain = adaptive_chain(params);
  ASSERT_OK(chain->sample(adaptive_logits()));
  EXPECT_NEAR(chain->top_candidates(1)[0].prob, 0.5, 2e-7);
  EXPECT_EQ(std::ranges::count(default_order(), SamplerKind::adaptive_p), 0);
}

TEST(AdaptiveP, IsTheLastStepWhereverItIsNamed) {
  SamplerParams params = adaptive(0.2f);
  params.top_k = 2;
  params.order = {SamplerKind::adaptive_p, SamplerKind::top_k};
  const auto chain = adaptive_chain(params);
  ASSERT_OK(chain->sample(adaptive_logits()));
  // After top_k, p is 0.625 and 0.375. Before it, token 2 would be the best.
  const auto top = chain->top_candidates(3);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].id, 1);
}

TEST(AdaptiveP, TemperatureZeroStaysGreedy) {
  SamplerParams params = adaptive(0.2f);
  params.temp = 0;
  const auto chain = adaptive_chain(params);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(chain->sample(adaptive_logits()).value_or(-1), 0);
}

TEST(AdaptiveP, OneCandidateUsesNoRandomNumber) {
  Candidates candidates;
  candidates.assign(std::vector<float>{-kInf, 2});
  SeededRng rng(3), fresh(3);
  make_with(make_adaptive_p, adaptive(0.2f))->apply(candidates, History(0), rng);
  EXPECT_EQ(candidates.selected()->id, 1);
  EXPECT_EQ(rng.next_double(), fresh.next_double());
}

TEST(AdaptiveP, ResetAndCloneCarryTheState) {
  const auto chain = adaptive_chain(adaptive(0.4f), 200);
  const auto draw = [](Chain& from) {
    Rng rng(91);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 40; ++i) {
      tokens.push_back(from.sample(random_logits(200, rng, 4)).value_or(-1));
      EXPECT_OK(from.accept(tokens.back()));
    }
    return tokens;
  };
  const auto first = draw(*chain);
  const auto copy = chain->clone();
  const auto second = draw(*chain);
  EXPECT_EQ(draw(*copy), second);
  chain->reset();
  EXPECT_EQ(draw(*chain), first);
}

TEST(AdaptiveP, ResetForgetsTheAverage) {
  const auto chain = adaptive_chain(adaptive(0.3f));
  ASSERT_OK_AND_ASSIGN(const int32_t token, chain->sample(std::vector<float>{9, -kInf, -kInf}));
  ASSERT_OK(chain->accept(token));
  chain->reset();
  expect_adapted(*chain, 0.3);
}

TEST(AdaptiveP, SelectsNothingWhereNothingIsLeft) {
  Candidates candidates;
  candidates.assign(std::vector<float>{kNan, -kInf});
  SeededRng rng(1);
  make_with(make_adaptive_p, adaptive(0.2f))->apply(candidates, History(0), rng);
  EXPECT_FALSE(candidates.selected());
}

TEST(AdaptiveP, DoesNotDependOnTheOrderOfTokens) { expect_permutable(make_adaptive_p, adaptive(0.1f)); }

}  // namespace
}  // namespace tessera::sample
