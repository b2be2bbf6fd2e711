// penalties against their definition, and against a new count of the window for each token.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

/// The logits after the sampler has accepted `text`, of which the last n tokens count.
std::map<int32_t, float> penalised(const SamplerParams& params, const std::vector<int32_t>& text,
                                   const std::vector<float>& logits) {
  const auto sampler = make_with(make_penalties, params, logits.size());
  History history(1024);
  for (const int32_t token : text) {
    sampler->accept(token, history);
    history.push(token);
  }
  Candidates candidates;
  candidates.assign(logits);
  SeededRng rng(1);
  sampler->apply(candidates, history, rng);
  std::map<int32_t, float> result;
  for (const Candidate& item : candidates.items()) result[item.id] = item.logit;
  return result;
}

TEST(Penalties, RepeatDividesPositiveAndMultipliesNegative) {
  const SamplerParams params = {.repeat_penalty = 2};
  const auto got = penalised(params, {0, 1, 1}, {3, -3, 3});
  EXPECT_EQ(got, (std::map<int32_t, float>{{0, 1.5f}, {1, -6.0f}, {2, 3.0f}}));
}

TEST(Penalties, FrequencyCountsAndPresenceDoesNot) {
  const SamplerParams params = {.presence_penalty = 0.5f, .frequency_penalty = 0.25f};
  const auto got = penalised(params, {0, 1, 1, 1}, {3, 3, 3});
  EXPECT_EQ(got, (std::map<int32_t, float>{{0, 2.25f}, {1, 1.75f}, {2, 3.0f}}));
}

TEST(Penalties, OnlyTheLastNCount) {
  const SamplerParams params = {.repeat_last_n = 2, .repeat_penalty = 2};
  const auto got = penalised(params, {0, 1, 2}, {4, 4, 4});
  EXPECT_EQ(got, (std::map<int32_t, float>{{0, 4.0f}, {1, 2.0f}, {2, 2.0f}}));
}

TEST(Penalties, OffWhenNeutralOrWithoutWindow) {
  EXPECT_FALSE(make_with(make_penalties, {}));
  EXPECT_FALSE(make_with(make_penalties, {.repeat_last_n = 0, .repeat_penalty = 2}));
  EXPECT_TRUE(make_with(make_penalties, {.repeat_last_n = -1, .repeat_penalty = 2}));
}

TEST(Penalties, ResetForgetsTheText) {
  const SamplerParams params = {.repeat_penalty = 2};
  const auto sampler = make_with(make_penalties, params, 2);
  History history(64);
  sampler->accept(0, history);
  sampler->reset();
  Candidates candidates;
  candidates.assign(std::vector<float>{4, 4});
  SeededRng rng(1);
  sampler->apply(candidates, history, rng);
  EXPECT_EQ(candidates.items()[0].logit, 4);
}

TEST(Penalties, AgreesWithCountingTheWindowForEachToken) {
  Rng rng(41);
  for (const int32_t last_n : {1, 3, 50, -1}) {
    const SamplerParams params = {
        .repeat_last_n = last_n, .repeat_penalty = 1.3f, .presence_penalty = 0.3f, .frequency_penalty = -0.2f};
    std::vector<int32_t> text;
    for (int i = 0; i < 200; ++i) text.push_back(static_cast<int32_t>(rng.next_u32() % 40));
    const auto logits = random_logits(40, rng);
    const auto got = penalised(params, text, logits);
    const size_t window = last_n < 0 ? text.size() : static_cast<size_t>(last_n);
    for (int32_t id = 0; id < 40; ++id) {
      const auto count = std::count(text.end() - static_cast<ptrdiff_t>(window), text.end(), id);
      double want = static_cast<double>(logits[static_cast<size_t>(id)]);
      if (count > 0) want = (want > 0 ? want / 1.3 : want * 1.3) - static_cast<double>(count) * -0.2 - 0.3;
      EXPECT_NEAR(got.at(id), want, 2e-5) << id;  // float arithmetic on values up to 60
    }
  }
}

}  // namespace
}  // namespace tessera::sample
