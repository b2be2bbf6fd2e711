// Defaults and ranges. Every numeric field is tested with hostile values.
#include "tessera/sample/params.h"

#include <limits>

#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

// Calls f(name, member) for each number of SamplerParams of type T.
template <class T, class F>
void for_each_number(F f) {
  for (const SamplingParam& param : sampling_params())
    if (const auto* member = std::get_if<T SamplerParams::*>(&param.member)) f(param.name, *member);
}

/// Samples a few tokens. Any outcome is accepted except a crash, a hang or an unbounded allocation.
void exercise(SamplerParams params) {
  params.seed = 3;
  auto chain = Chain::create(params, std::make_shared<TestVocab>(16), 32);
  ASSERT_OK(chain);
  Rng rng(5);
  for (int step = 0; step < 6; ++step) {
    const auto token = (*chain)->sample(random_logits(16, rng));
    ASSERT_OK(token);
    ASSERT_OK((*chain)->accept(*token % 3));
  }
}

TEST(SamplerParams, DefaultsAreTheReferences) {
  const SamplerParams params;
  EXPECT_OK(validate(params));
  EXPECT_FLOAT_EQ(params.temp, 0.8f);
  EXPECT_EQ(params.top_k, 40);
  EXPECT_FLOAT_EQ(params.top_p, 0.95f);
  EXPECT_FLOAT_EQ(params.min_p, 0.05f);
  EXPECT_EQ(params.repeat_last_n, 64);
  EXPECT_EQ(params.dry_penalty_last_n, 64);
  EXPECT_EQ(params.dry_sequence_breakers, (std::vector<std::string>{"\n", ":", "\"", "*"}));
}

TEST(SamplerParams, NotFiniteIsRefusedInEveryRealField) {
  size_t n = 0;
  for_each_number<float>([&](std::string_view name, float SamplerParams::*member) {
    ++n;
    for (const float value : {kNan, kInf, -kInf, 3e38f, -3e38f}) {
      SamplerParams params;
      params.*member = value;
      EXPECT_ERROR(validate(params), std::string(name) + ": got ");
    }
  });
  EXPECT_GE(n, 16u);
}

TEST(SamplerParams, IntMinIsRefusedInEveryIntegerField) {
  const auto refuses = [](std::string_view name, int32_t SamplerParams::*member) {
    for (const int32_t value : {std::numeric_limits<int32_t>::min(), -2}) {
      SamplerParams params;
      params.*member = value;
      EXPECT_ERROR(validate(params), std::string(name) + ": got " + std::to_string(value) + ", range ");
    }
  };
  for_each_number<int32_t>(refuses);
  refuses("n_prev", &SamplerParams::n_prev);
  refuses("min_keep", &SamplerParams::min_keep);
}

TEST(SamplerParams, WhatValidatePassesAChainSurvives) {
  const float real_values[] = {0, -1, 1, 1e-7f, -1e-7f, 1e-45f, 0.5f, 100, 1000};
  const int32_t integer_values[] = {-1, 0, 1, 2, 1 << 20, std::numeric_limits<int32_t>::max()};
  // Settings that activate the other fields.
  for (const int32_t mirostat : {0, 1, 2}) {
    SamplerParams base;
    base.mirostat = mirostat;
    base.dry_multiplier = 0.8f;
    base.repeat_penalty = 1.1f;
    base.xtc_probability = 1;
    base.typ_p = 0.9f;
    base.dynatemp_range = 0.5f;
    const auto sweep = [&](auto member, auto values) {
      for (const auto value : values) {
        SamplerParams params = base;
        params.*member = value;
        if (validate(params)) exercise(params);
      }
    };
    for_each_number<float>([&](std::string_view, auto member) { sweep(member, std::span(real_values)); });
    for_each_number<int32_t>([&](std::string_view, auto member) { sweep(member, std::span(integer_values)); });
    sweep(&SamplerParams::n_prev, std::span(integer_values));
    sweep(&SamplerParams::min_keep, std::span(integer_values));
  }
}

TEST(SamplerParams, SeedIsThirtyTwoBits) {
  EXPECT_OK(validate(seeded(0xffffffff)));
  EXPECT_ERROR(validate(seeded(0x100000000)), "seed: got 4294967296, range -1 to 4294967295");
  EXPECT_ERROR(validate(seeded(std::numeric_limits<int64_t>::min())), "seed");
}

TEST(SamplerParams, BiasMayBanButNotForce) {
  SamplerParams params;
  params.logit_bias = {{3, -kInf}};
  EXPECT_OK(validate(params));
  for (const float bias : {kNan, kInf}) {
    params.logit_bias = {{3, bias}};
    EXPECT_ERROR(validate(params), "logit_bias of token 3");
  }
}

TEST(SamplerParams, BreakersAreBounded) {
  SamplerParams params;
  params.dry_sequence_breakers = {""};
  EXPECT_ERROR(validate(params), "dry_sequence_breakers, bytes: got 0");
  params.dry_sequence_breakers = {std::string(257, 'a')};
  EXPECT_ERROR(validate(params), "dry_sequence_breakers, bytes: got 257");
  params.dry_sequence_breakers.assign(257, "a");
  EXPECT_ERROR(validate(params), "dry_sequence_breakers, count: got 257");
}

TEST(SamplerParams, OrderHoldsStepsOnly) {
  SamplerParams params;
  params.order = {SamplerKind::dist};
  EXPECT_ERROR(validate(params), "order: entry 0");
  params.order = {static_cast<SamplerKind>(200)};
  EXPECT_ERROR(validate(params), "order: entry 0 is 200");
  params.order = {SamplerKind::top_k, SamplerKind::top_k};
  EXPECT_ERROR(validate(params), "order: top_k appears twice");
}

}  // namespace
}  // namespace tessera::sample
