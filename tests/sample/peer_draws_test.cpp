// The tokens that llama.cpp draws: chains of its library (v0.5.0, llama_sampler_chain_add() and llama_sampler_apply()
// with the seed 42) over the same ten logits. Each chain has another order of draws.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

using Kinds = std::vector<SamplerKind>;

/// 24 tokens of a chain with seed 42. No step is on, unless the parameters say so.
std::vector<int32_t> draws(const Kinds& order, void (*set)(SamplerParams&)) {
  SamplerParams params = {.seed = 42, .order = order, .temp = 1, .top_k = 0, .top_p = 1, .min_p = 0};
  set(params);
  const std::vector<float> logits = {1, 1.25f, -0.125f, 2, 1.875f, 1.375f, -2.75f, 1.125f, 1.75f, -1.75f};
  auto chain = Chain::create(params, std::make_shared<TestVocab>(logits.size()), 64);
  EXPECT_OK(chain);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 24 && chain; ++i) {
    tokens.push_back((*chain)->sample(logits).value_or(-1));
    EXPECT_OK((*chain)->accept(tokens.back()));
  }
  return tokens;
}

TEST(PeerDraws, GoByIdWithoutASort) {
  EXPECT_EQ(draws({}, [](auto&) {}),
            (std::vector{7, 2, 7, 4, 4, 1, 4, 3, 1, 5, 0, 5, 8, 0, 8, 5, 4, 0, 0, 4, 3, 0, 8, 3}));
}

TEST(PeerDraws, OfMinPGoById) {
  const auto set = [](SamplerParams& params) {
    params.min_p = 0.3f;
    params.temp = 0.8f;
  };
  EXPECT_EQ(draws({SamplerKind::min_p, SamplerKind::temperature}, set),
            (std::vector{7, 3, 7, 4, 4, 1, 4, 3, 1, 5, 0, 5, 8, 0, 8, 4, 4, 0, 0, 4, 3, 0, 8, 3}));
}

TEST(PeerDraws, OfTheDefaultChainGoByLogit) {
  const auto set = [](SamplerParams& params) {
    params.top_k = 40;
    params.top_p = 0.95f;
    params.min_p = 0.05f;
    params.temp = 0.8f;
  };
  EXPECT_EQ(draws(default_order(), set),
            (std::vector{1, 3, 1, 8, 4, 3, 8, 4, 3, 5, 3, 5, 0, 3, 0, 8, 8, 3, 3, 8, 4, 3, 0, 3}));
}

TEST(PeerDraws, OfTypicalGoByTypicality) {
  const auto set = [](SamplerParams& params) {
    params.typ_p = 0.6f;
    params.temp = 0.8f;
  };
  EXPECT_EQ(draws({SamplerKind::typical, SamplerKind::temperature}, set),
            (std::vector{4, 8, 4, 4, 1, 5, 1, 8, 5, 4, 5, 4, 7, 5, 7, 4, 4, 5, 5, 1, 8, 5, 7, 8}));
}

TEST(PeerDraws, OfADynamicTemperatureGoByLogit) {
  EXPECT_EQ(draws({SamplerKind::temperature}, [](SamplerParams& params) { params.dynatemp_range = 0.5f; }),
            (std::vector{7, 3, 7, 5, 8, 3, 8, 4, 3, 1, 3, 1, 0, 3, 9, 5, 5, 3, 3, 5, 8, 3, 2, 4}));
}

TEST(PeerDraws, KeepTheirOrderWhenPenaltiesChangeLogits) {
  const auto set = [](SamplerParams& params) {
    params.top_k = 6;
    params.repeat_penalty = 1.3f;
  };
  EXPECT_EQ(draws({SamplerKind::penalties, SamplerKind::top_k}, set),
            (std::vector{1, 3, 5, 3, 8, 4, 8, 4, 3, 7, 3, 5, 1, 3, 1, 5, 5, 3, 3, 8, 4, 3, 1, 4}));
  EXPECT_EQ(draws({SamplerKind::top_k, SamplerKind::penalties}, set),
            (std::vector{1, 3, 5, 8, 4, 3, 8, 4, 3, 5, 3, 5, 7, 3, 7, 8, 8, 3, 3, 8, 4, 3, 7, 4}));
}

TEST(PeerDraws, OfXtcComeFromItsOwnGenerator) {
  const auto set = [](SamplerParams& params) { params.xtc_probability = 0.5f; };
  EXPECT_EQ(draws({SamplerKind::xtc}, set),
            (std::vector{0, 2, 7, 7, 4, 1, 4, 3, 1, 0, 1, 0, 2, 1, 8, 7, 4, 1, 0, 4, 7, 1, 8, 3}));
}

TEST(PeerDraws, OfMirostatGoByLogit) {
  // At the learning rate 0, because llama.cpp learns from another surprise: that under the truncated distribution.
  const auto set = [](SamplerParams& params) {
    params.mirostat = 2;
    params.mirostat_tau = 1.6f;
    params.mirostat_eta = 0;
  };
  EXPECT_EQ(draws({}, set), (std::vector{8, 3, 8, 8, 4, 3, 4, 4, 3, 8, 3, 8, 5, 3, 5, 8, 8, 3, 3, 4, 4, 3, 5, 3}));
}

TEST(PeerDraws, OfAdaptivePKeepTheOrderOfTheListBefore) {
  const auto set = [](SamplerParams& params) {
    params.top_k = 9;
    params.min_p = 0.05f;
    params.temp = 0.8f;
    params.adaptive_target = 0.3f;
  };
  EXPECT_EQ(draws({SamplerKind::top_k, SamplerKind::min_p, SamplerKind::temperature, SamplerKind::adaptive_p}, set),
            (std::vector{8, 3, 8, 4, 3, 3, 3, 3, 3, 4, 3, 4, 5, 3, 0, 4, 4, 3, 3, 4, 3, 3, 7, 3}));
  const auto set_alone = [](SamplerParams& params) {
    params.adaptive_target = 0.05f;
    params.adaptive_decay = 0.5f;
  };
  EXPECT_EQ(draws({SamplerKind::adaptive_p}, set_alone),
            (std::vector{7, 1, 7, 6, 4, 0, 5, 2, 1, 6, 0, 7, 9, 0, 9, 6, 5, 0, 0, 6, 2, 0, 9, 1}));
}

}  // namespace
}  // namespace tessera::sample
