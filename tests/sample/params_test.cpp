// Defaults and ranges: every numeric field is swept with hostile values.
#include "tessera/sample/params.h"

#include <limits>

#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

struct Real {
  const char* name;
  float SamplerParams::*field;
};
constexpr Real kReals[] = {
    {"temp", &SamplerParams::temp},
    {"dynatemp_range", &SamplerParams::dynatemp_range},
    {"dynatemp_exponent", &SamplerParams::dynatemp_exponent},
    {"top_p", &SamplerParams::top_p},
    {"min_p", &SamplerParams::min_p},
    {"typ_p", &SamplerParams::typ_p},
    {"top_n_sigma", &SamplerParams::top_n_sigma},
    {"xtc_probability", &SamplerParams::xtc_probability},
    {"xtc_threshold", &SamplerParams::xtc_threshold},
    {"repeat_penalty", &SamplerParams::repeat_penalty},
    {"presence_penalty", &SamplerParams::presence_penalty},
    {"frequency_penalty", &SamplerParams::frequency_penalty},
    {"dry_multiplier", &SamplerParams::dry_multiplier},
    {"dry_base", &SamplerParams::dry_base},
    {"mirostat_tau", &SamplerParams::mirostat_tau},
    {"mirostat_eta", &SamplerParams::mirostat_eta},
};

struct Integer {
  const char* name;
  int32_t SamplerParams::*field;
};
constexpr Integer kIntegers[] = {
    {"n_prev", &SamplerParams::n_prev},
    {"min_keep", &SamplerParams::min_keep},
    {"top_k", &SamplerParams::top_k},
    {"repeat_last_n", &SamplerParams::repeat_last_n},
    {"dry_allowed_length", &SamplerParams::dry_allowed_length},
    {"dry_penalty_last_n", &SamplerParams::dry_penalty_last_n},
    {"mirostat", &SamplerParams::mirostat},
};

/// Samples a few tokens; any outcome but a crash, a hang or an allocation by the parameters will do.
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
  for (const Real& real : kReals) {
    for (const float value : {kNan, kInf, -kInf, 3e38f, -3e38f}) {
      SamplerParams params;
      params.*real.field = value;
      EXPECT_ERROR(validate(params), std::string(real.name) + ": got ");
    }
  }
}

TEST(SamplerParams, IntMinIsRefusedInEveryIntegerField) {
  for (const Integer& integer : kIntegers) {
    for (const int32_t value : {std::numeric_limits<int32_t>::min(), -2}) {
      SamplerParams params;
      params.*integer.field = value;
      EXPECT_ERROR(validate(params), std::string(integer.name) + ": got " + std::to_string(value) + ", range ");
    }
  }
}

TEST(SamplerParams, WhatValidatePassesAChainSurvives) {
  const float real_values[] = {0, -1, 1, 1e-7f, -1e-7f, 1e-45f, 0.5f, 100, 1000};
  const int32_t integer_values[] = {-1, 0, 1, 2, 1 << 20, std::numeric_limits<int32_t>::max()};
  // The switches that bring the rest of the fields into play.
  for (const int32_t mirostat : {0, 1, 2}) {
    SamplerParams base;
    base.mirostat = mirostat;
    base.dry_multiplier = 0.8f;
    base.repeat_penalty = 1.1f;
    base.xtc_probability = 1;
    base.typ_p = 0.9f;
    base.dynatemp_range = 0.5f;
    for (const Real& real : kReals) {
      for (const float value : real_values) {
        SamplerParams params = base;
        params.*real.field = value;
        if (validate(params)) exercise(params);
      }
    }
    for (const Integer& integer : kIntegers) {
      for (const int32_t value : integer_values) {
        SamplerParams params = base;
        params.*integer.field = value;
        if (validate(params)) exercise(params);
      }
    }
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
  EXPECT_ERROR(validate(params), "order: top_k stands in it twice");
}

}  // namespace
}  // namespace tessera::sample
