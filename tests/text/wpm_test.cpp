#include "tessera/text/wpm.h"

#include <gtest/gtest.h>

#include "tessera/text/detokenize.h"
#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera::text {
namespace {

using testing::make_tokenizer;
using testing::small_vocab;
using Ids = std::vector<int32_t>;

#define START "\xE2\x96\x81"  // prefix of tokens that start a word in GGUF files

/// <unk> is 0, <s> 1 and </s> 2; then 3 "_ab", 4 "_a", 5 "b", 6 "bc", 7 "_,", 8 the Chinese character 9 "_x".
VocabData wpm_vocab() {
  VocabData data =
      small_vocab({{START "ab"}, {START "a"}, {"b"}, {"bc"}, {START ","}, {START "\xE4\xBD\xA0"}, {START "x"}});
  data.model = "bert";
  const auto set = [&](SpecialToken which, int64_t id) { data.special_ids[static_cast<size_t>(which)] = id; };
  set(SpecialToken::unknown, 0);
  set(SpecialToken::bos, 1);
  set(SpecialToken::separator, 2);
  return data;
}

Ids ids(std::string_view text, TokenizeOptions options = {}) {
  const auto tokens = make_tokenizer(wpm_vocab())->tokenize(text, options);
  EXPECT_OK(tokens);
  return tokens.value_or(Ids{});
}

TEST(Wpm, TheLongestTokenComesFirst) {
  EXPECT_EQ(ids("abb"), (Ids{3, 5}));
  EXPECT_EQ(ids("abbc"), (Ids{3, 6}));
  EXPECT_EQ(ids("a"), Ids{4});
}

TEST(Wpm, AWordThatCannotBeSpelledIsUnknownAsAWhole) {
  EXPECT_EQ(ids("abq a"), (Ids{0, 4}));
  EXPECT_EQ(ids("b"), Ids{0}) << "b continues a word and starts none";
}

TEST(Wpm, PunctuationAndChineseCharactersStandAlone) {
  EXPECT_EQ(ids("a,a"), (Ids{4, 7, 4}));
  EXPECT_EQ(ids("a\xE4\xBD\xA0\xE4\xBD\xA0x"), (Ids{4, 8, 8, 9}));
}

TEST(Wpm, CapitalsAndAccentsGo) { EXPECT_EQ(ids("\xC3\x81\x42 A\xCC\x81"), (Ids{3, 4})); }

TEST(Wpm, CapitalsAndAccentsStayWhereTheFileSaysSo) {
  VocabData data = wpm_vocab();
  data.tokens[4] = START "A";
  data.tokens[5] = "\xC3\xA9";
  data.lowercase = false;
  EXPECT_EQ(make_tokenizer(data)->tokenize("A a \xC3\x81").value(), (Ids{4, 0, 4}));
  data.strip_accents = false;
  EXPECT_EQ(make_tokenizer(data)->tokenize("A\xC3\xA9 \xC3\x81").value(), (Ids{4, 5, 0}));
}

TEST(Wpm, ControlCharactersAndBadBytesGo) {
  EXPECT_EQ(ids(std::string_view("a\0\x01"
                                 "b\xFF\xE2\x80\x8B",
                                 9)),
            Ids{3});
  EXPECT_EQ(ids("a\tb\xE3\x80\x80x"), (Ids{4, 0, 9})) << "but white space cuts";
}

TEST(Wpm, SequencesStartAndEndWithTheirTokensWhateverTheFlagsSay) {
  EXPECT_EQ(ids("a", {.add_special = true}), (Ids{1, 4, 2}));
  EXPECT_EQ(ids("", {.add_special = true}), (Ids{1, 2}));
  VocabData data = wpm_vocab();
  data.add_bos = data.add_eos = false;
  EXPECT_EQ(make_tokenizer(data)->tokenize("a", {.add_special = true}).value(), (Ids{1, 4, 2}));
}

TEST(Wpm, ClsStandsInForAMissingBos) {
  VocabData data = wpm_vocab();
  data.special_ids[static_cast<size_t>(SpecialToken::bos)].reset();
  data.special_ids[static_cast<size_t>(SpecialToken::cls)] = 1;
  EXPECT_EQ(make_tokenizer(data)->tokenize("a", {.add_special = true}).value(), (Ids{1, 4, 2}));
}

TEST(Wpm, WordsComeBackWithSpacesBetween) {
  EXPECT_EQ(detokenize(*make_tokenizer(wpm_vocab()), Ids{3, 6, 7, 4}).value(), "abbc , a");
  EXPECT_EQ(detokenize(*make_tokenizer(wpm_vocab()), Ids{1, 4, 2}, {.render_special = true}).value(), "<s>a</s>");
}

TEST(Wpm, ATextThatNothingCanSpellIsAnErrorWithoutAnUnknownToken) {
  VocabData data = wpm_vocab();
  data.special_ids[static_cast<size_t>(SpecialToken::unknown)] = -1;
  EXPECT_ERROR(make_tokenizer(data)->tokenize("a q"), "\"q\"");
}

}  // namespace
}  // namespace tessera::text
