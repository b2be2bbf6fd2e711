#include "tessera/text/utf8.h"

#include <gtest/gtest.h>

namespace tessera::text {
namespace {

void expect_step(std::string_view text, Utf8State state, size_t n_bytes) {
  const Utf8Step step = next_utf8(text);
  EXPECT_EQ(static_cast<int>(step.state), static_cast<int>(state)) << quote_text(text);
  EXPECT_EQ(step.n_bytes, n_bytes) << quote_text(text);
}

TEST(Utf8, FirstAndLastOfEachLengthAreValid) {
  for (const std::string_view text : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                      "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    expect_step(text, Utf8State::valid, text.size());
}

TEST(Utf8, OverlongFormsAreInvalid) {
  expect_step("\xC0\x80", Utf8State::invalid, 1);
  expect_step("\xC1\xBF", Utf8State::invalid, 1);
  expect_step("\xE0\x9F\xBF", Utf8State::invalid, 1);
  expect_step("\xF0\x8F\xBF\xBF", Utf8State::invalid, 1);
}

TEST(Utf8, SurrogatesAreInvalid) { expect_step("\xED\xA0\x80", Utf8State::invalid, 1); }

TEST(Utf8, ValuesPastTheLastCodePointAreInvalid) {
  expect_step("\xF4\x90\x80\x80", Utf8State::invalid, 1);
  expect_step("\xF5\x80\x80\x80", Utf8State::invalid, 1);
}

TEST(Utf8, ALoneContinuationByteIsInvalid) { expect_step("\x80", Utf8State::invalid, 1); }

TEST(Utf8, AnInvalidStepStopsBeforeTheByteThatBreaksIt) {
  expect_step(
      "\xF0\x9F\x98"
      "A",
      Utf8State::invalid, 3);
}

TEST(Utf8, ATextThatEndsInsideACodePointIsIncomplete) {
  expect_step("\xF0", Utf8State::incomplete, 1);
  expect_step("\xF0\x9F", Utf8State::incomplete, 2);
  expect_step("\xF0\x9F\x98", Utf8State::incomplete, 3);
}

TEST(Utf8, ToValidReplacesEachMaximalPrefixOnce) {
  EXPECT_EQ(to_valid_utf8("a\xF0\x9F\x98z\x80\xE2\x96"), "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Utf8, ToValidKeepsValidTextAndNul) {
  const std::string_view text("a\0\xC3\xA9\xF0\x9F\x98\x80", 8);
  EXPECT_TRUE(is_valid_utf8(text));
  EXPECT_EQ(to_valid_utf8(text), text);
}

TEST(Utf8, QuotedEscapesControlsAndBadBytes) { EXPECT_EQ(quote_text("a\n\x80\xC3\xA9"), "\"a\\x0A\\x80\xC3\xA9\""); }

TEST(Utf8, QuotedCutsBetweenCodePoints) { EXPECT_EQ(quote_text("ab\xC3\xA9", 3), "\"ab\"..."); }

}  // namespace
}  // namespace tessera::text
