#include "tessera/text/detokenize.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/text/utf8.h"
#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera::text {
namespace {

using enum TokenType;
using testing::make_tokenizer;
using testing::small_vocab;
using Ids = std::vector<int32_t>;

// 3 "_a", 4 "b", 5 "_", 6 "[u]" user-defined, 7... the bytes 0 to 255
constexpr int32_t kByte0 = 7;
std::unique_ptr<const Tokenizer> prefix_tokenizer() {
  static const std::vector<std::string> kBytes = [] {
    std::vector<std::string> texts;
    for (int i = 0; i < 256; ++i) texts.push_back(fmt::format("<0x{:02X}>", i));
    return texts;
  }();
  std::vector<testing::SmallToken> tokens{{"\xE2\x96\x81"
                                           "a",
                                           -1},
                                          {"b"},
                                          {"\xE2\x96\x81"},
                                          {"[u]", 0, user_defined}};
  for (const std::string& text : kBytes) tokens.push_back({text, 0, byte});
  VocabData data = small_vocab(tokens);
  data.add_space_prefix = true;
  return make_tokenizer(data);
}

std::string text_of(const Ids& tokens, DetokenizeOptions options = {}) {
  const auto text = detokenize(*prefix_tokenizer(), tokens, options);
  EXPECT_OK(text);
  return text.value_or("");
}

TEST(Detokenize, TheFirstSpaceIsThePrefixAndGoes) {
  EXPECT_EQ(text_of({3, 3}), "a a");
  EXPECT_EQ(text_of({1, 3, 3}), "a a") << "also after BOS";
  EXPECT_EQ(text_of({5, 5, 4}), " b") << "only one";
}

TEST(Detokenize, AContinuationKeepsItsFirstSpace) { EXPECT_EQ(text_of({3}, {.at_start = false}), " a"); }

TEST(Detokenize, WithoutThePrefixRuleTheFirstSpaceStays) {
  const auto tokenizer =
      make_tokenizer(small_vocab({{"\xE2\x96\x81"
                                   "a"}}));
  EXPECT_EQ(detokenize(*tokenizer, Ids{3}).value(), " a");
}

TEST(Detokenize, ControlTokensShowOnlyWhenAsked) {
  EXPECT_EQ(text_of({1, 3, 2}), "a");
  EXPECT_EQ(text_of({1, 3, 2}, {.render_special = true}), "<s>a</s>");
}

TEST(Detokenize, AHiddenControlTokenInTheMiddleKeepsTheSpaceAfterIt) { EXPECT_EQ(text_of({3, 2, 3}), "a a"); }

TEST(Detokenize, ByteTokensAreTheirBytes) { EXPECT_EQ(text_of({4, kByte0 + 0xC3, kByte0 + 0xA9}), "b\xC3\xA9"); }

TEST(Detokenize, AnIdThatIsNoTokenIsAnError) {
  for (const int32_t id : {-1, 7 + 256, INT32_MAX, INT32_MIN})
    EXPECT_ERROR(detokenize(*prefix_tokenizer(), Ids{id}), "not in the vocabulary of 263 tokens");
}

TEST(Detokenize, RoundTripsAnyBytes) {
  const auto tokenizer = prefix_tokenizer();
  for (const std::string_view text : {"", " ", "  ", " a", "a a ", "b[u]b", "[u] [u]", "\xF0\x9F\x98\x80",
                                      "\x80\xFF\xF0\x9F", "<s>", "<0x41>", "\xED\xA0\x80"}) {
    const auto tokens = tokenizer->tokenize(text);
    ASSERT_OK(tokens);
    EXPECT_EQ(detokenize(*tokenizer, *tokens).value(), text);
  }
}

TEST(Detokenize, RoundTripsParsedSpecialTokens) {
  const auto tokenizer = prefix_tokenizer();
  for (const std::string_view text : {"<s>a</s>b", "</s> a<s>", "[u]<s>[u] b"}) {
    const auto tokens = tokenizer->tokenize(text, {.parse_special = true});
    ASSERT_OK(tokens);
    EXPECT_EQ(detokenize(*tokenizer, *tokens, {.render_special = true}).value(), text);
  }
}

TEST(DetokenizeStream, HoldsBackAnUnfinishedCodePoint) {
  const auto tokenizer = prefix_tokenizer();
  DetokenizeStream stream(*tokenizer);
  EXPECT_EQ(stream.push(kByte0 + 0xF0).value(), "");
  EXPECT_EQ(stream.push(kByte0 + 0x9F).value(), "");
  EXPECT_EQ(stream.push(kByte0 + 0x98).value(), "");
  EXPECT_EQ(stream.push(kByte0 + 0x80).value(), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.finish(), "");
}

TEST(DetokenizeStream, BytesThatCannotBecomeACodePointAreReplacedAtOnce) {
  const auto tokenizer = prefix_tokenizer();
  DetokenizeStream stream(*tokenizer);
  EXPECT_EQ(stream.push(kByte0 + 0xFF).value(), kReplacementCharacter);
  EXPECT_EQ(stream.push(kByte0 + 0xE2).value(), "");
  EXPECT_EQ(stream.push(4).value(),
            "\xEF\xBF\xBD"
            "b");
}

TEST(DetokenizeStream, FinishReplacesWhatIsHeldOnce) {
  const auto tokenizer = prefix_tokenizer();
  DetokenizeStream stream(*tokenizer);
  ASSERT_OK(stream.push(kByte0 + 0xE2));
  ASSERT_OK(stream.push(kByte0 + 0x96));
  EXPECT_EQ(stream.finish(), kReplacementCharacter);
  EXPECT_EQ(stream.finish(), "");
}

TEST(DetokenizeStream, AnIdThatIsNoTokenIsAnErrorAndChangesNothing) {
  const auto tokenizer = prefix_tokenizer();
  DetokenizeStream stream(*tokenizer);
  ASSERT_OK(stream.push(kByte0 + 0xC3));
  EXPECT_ERROR(stream.push(int64_t{1} << 40), "not in the vocabulary");
  EXPECT_EQ(stream.push(kByte0 + 0xA9).value(), "\xC3\xA9");
}

// Any text as byte tokens, so that every byte is a separate token and each split of each code point occurs.
TEST(DetokenizeStream, ThePartsAreValidAndTogetherTheValidText) {
  const auto tokenizer = prefix_tokenizer();
  for (const std::string_view text : {"a\xC3\xA9\xE2\x96\x82\xF0\x9F\x98\x80z", "\xF0\x9F\xE2\x96",
                                      "\xE2\xE2\xE2\x82\xAC", "\xF4\x90\x80\x80", "\xED\xA0\x80", "\x80\x80",
                                      "\xF0\x9F\x98"
                                      "b\xF0",
                                      "\xC0\xAF"}) {
    DetokenizeStream stream(*tokenizer);
    std::string all;
    for (const char c : text) {
      const auto part = stream.push(kByte0 + static_cast<uint8_t>(c));
      ASSERT_OK(part);
      EXPECT_TRUE(is_valid_utf8(*part));
      all += *part;
    }
    all += stream.finish();
    EXPECT_EQ(all, to_valid_utf8(text));
  }
}

}  // namespace
}  // namespace tessera::text
