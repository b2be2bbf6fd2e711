// The table of samplers and both notations of an order.
#include "tessera/sample/order.h"

#include <gtest/gtest.h>

#include "tests/support/testing.h"

namespace tessera::sample {
namespace {

TEST(SamplerOrder, DefaultIsTheReferenceOrderInBothSpellings) {
  ASSERT_OK_AND_ASSIGN(const auto by_name,
                       parse_sampler_names("penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"));
  ASSERT_OK_AND_ASSIGN(const auto by_letter, parse_sampler_letters("edskypmxt"));
  EXPECT_EQ(by_name, default_order());
  EXPECT_EQ(by_letter, default_order());
}

TEST(SamplerOrder, KeepsTheWrittenOrder) {
  const std::vector<SamplerKind> want = {SamplerKind::temperature, SamplerKind::top_k};
  ASSERT_OK_AND_ASSIGN(const auto by_name, parse_sampler_names("temperature;top_k"));
  ASSERT_OK_AND_ASSIGN(const auto by_letter, parse_sampler_letters("tk"));
  EXPECT_EQ(by_name, want);
  EXPECT_EQ(by_letter, want);
}

TEST(SamplerOrder, EmptyTextIsNoSteps) {
  ASSERT_OK_AND_ASSIGN(const auto by_name, parse_sampler_names(""));
  ASSERT_OK_AND_ASSIGN(const auto by_letter, parse_sampler_letters(""));
  EXPECT_TRUE(by_name.empty());
  EXPECT_TRUE(by_letter.empty());
}

TEST(SamplerOrder, UnknownNameIsNamedWithTheKnownOnes) {
  EXPECT_ERROR(parse_sampler_names("top_k;top_q"), "\"top_q\" is unknown; steps: penalties (e), dry (d)");
  EXPECT_ERROR(parse_sampler_names("top_k;"), "\"\" is unknown");
  EXPECT_ERROR(parse_sampler_letters("kz"), "\"z\" is unknown; steps: penalties (e), dry (d)");
  EXPECT_ERROR(parse_sampler_letters(std::string_view("k\0", 2)), "is unknown");
}

TEST(SamplerOrder, HostileNameIsShownEscapedAndCut) {
  const auto result = parse_sampler_names(std::string(100000, 'A') + "\x1b[2J");
  ASSERT_FALSE(result.has_value());
  EXPECT_LT(result.error().message().size(), 400u);
  EXPECT_ERROR(parse_sampler_names("\x1b[2J"), "\\x1b[2J");
}

TEST(SamplerOrder, UnbuiltSamplerIsToldFromUnknown) {
  EXPECT_ERROR(parse_sampler_names("infill"), "fill-in-the-middle models, which is not supported");
  EXPECT_ERROR(parse_sampler_letters("i"), "fill-in-the-middle models, which is not supported");
  const auto result = parse_sampler_names("grammar");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), ErrorCode::unsupported);
}

TEST(SamplerOrder, SamplersOfTheChainsEndsCannotBeArranged) {
  EXPECT_ERROR(parse_sampler_names("greedy"), "not a step to arrange");
  EXPECT_ERROR(parse_sampler_names("mirostat_v2"), "not a step to arrange");
}

TEST(SamplerOrder, AdaptivePIsAStepThatMustBeNamed) {
  const std::vector<SamplerKind> want = {SamplerKind::adaptive_p, SamplerKind::top_k};
  ASSERT_OK_AND_ASSIGN(const auto by_name, parse_sampler_names("adaptive_p;top_k"));
  ASSERT_OK_AND_ASSIGN(const auto by_letter, parse_sampler_letters("ak"));
  EXPECT_EQ(by_name, want);
  EXPECT_EQ(by_letter, want);
}

TEST(SamplerOrder, StepMayNotRepeat) {
  EXPECT_ERROR(parse_sampler_names("top_k;top_k"), "twice");
  EXPECT_ERROR(parse_sampler_letters(std::string(100000, 'k')), "twice");
}

TEST(SamplerOrder, TableIsIndexedByKindAndUnambiguous) {
  const auto table = sampler_table();
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(table[i].kind), i);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(table[i].name, table[j].name);
      EXPECT_TRUE(table[i].letter == '\0' || table[i].letter != table[j].letter);
    }
  }
}

}  // namespace
}  // namespace tessera::sample
