#include "tessera/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/testing.h"

namespace tessera::text {
namespace {

using Words = std::vector<std::string>;

Words cut(std::string_view family, std::string_view text) {
  const auto pre = PreTokenizer::create(family);
  EXPECT_OK(pre);
  Words out;
  if (!pre) return out;
  PreTokenizer::Words words(*pre, text);
  for (auto word = words.next(); !word.empty(); word = words.next()) out.emplace_back(word);
  return out;
}

TEST(PreTokenizer, EveryNameHasAFamilyThatCompiles) {
  std::set<std::string_view> names;
  for (const PreRow& row : pre_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
    EXPECT_OK(PreTokenizer::create(row.family));
    EXPECT_EQ(find_pre(row.name), &row);
  }
  EXPECT_EQ(names.size(), 87u);
  EXPECT_EQ(fallback_pre().name, "default");
  EXPECT_EQ(find_pre("klingon"), nullptr);
}

TEST(PreTokenizer, TheWordsTogetherAreTheText) {
  const std::string text = "Hello,  world!\r\n\n 123456 don't \xE4\xBD\xA0\xE5\xA5\xBD \xFF\xF0\x9F \xE2\x80\x8D\t x1 ";
  std::set<std::string_view> families;
  for (const PreRow& row : pre_rows()) families.insert(row.family);
  for (const std::string_view family : families) {
    std::string all;
    for (const std::string& word : cut(family, text)) all += word;
    EXPECT_EQ(all, text) << family;
    EXPECT_EQ(cut(family, ""), Words{});
  }
}

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(cut("gpt2", "I'm 12  ok!!\n\n"), (Words{"I", "'m", " 12", " ", " ok", "!!", "\n\n"}));
  EXPECT_EQ(cut("gpt2", "I'M"), (Words{"I", "'", "M"})) << "contractions are of lower case";
}

TEST(PreTokenizer, Llama3) {
  EXPECT_EQ(cut("llama3", "I'M 12345 (ok)\n\n x"), (Words{"I", "'M", " ", "123", "45", " (", "ok", ")\n\n", " x"}));
}

TEST(PreTokenizer, Qwen2CutsEveryDigit) { EXPECT_EQ(cut("qwen2", "a123"), (Words{"a", "1", "2", "3"})); }

TEST(PreTokenizer, Qwen35KeepsMarksWithTheirLetters) {
  EXPECT_EQ(cut("qwen2", "e\xCC\x81x"), (Words{"e", "\xCC\x81x"}));
  EXPECT_EQ(cut("qwen35", "e\xCC\x81x"), (Words{"e\xCC\x81x"}));
}

TEST(PreTokenizer, O200kCutsWhereCapitalsBegin) {
  EXPECT_EQ(cut("o200k", "CamelCase HTTPServer don't"), (Words{"Camel", "Case", " HTTPServer", " don't"}));
}

TEST(PreTokenizer, TekkenHasNoContractions) {
  EXPECT_EQ(cut("tekken", "don't 12"), (Words{"don", "'t", " ", "1", "2"}));
}

TEST(PreTokenizer, DeepseekChainsItsCuts) {
  EXPECT_EQ(cut("deepseek-llm", "ab 12\n\xE4\xBD\xA0"), (Words{"ab", " ", "12", "\n", "\xE4\xBD\xA0"}));
  EXPECT_EQ(cut("deepseek-llm", "a,   "), (Words{"a", ",", "   "}));
  EXPECT_EQ(cut("deepseek-v3", "1234 ~~ .com"), (Words{"123", "4", " ~~", " .", "com"}));
}

TEST(PreTokenizer, NumbersInThreesFromTheRight) {
  EXPECT_EQ(cut("superbpe", "a1234567 b12"), (Words{"a", "1", "234", "567", " b", "12"}));
  EXPECT_EQ(cut("afmoe", "1234"), (Words{"1", "234"}));
  EXPECT_EQ(cut("afmoe", "123456"), (Words{"123", "456"}));
  EXPECT_EQ(cut("tiny-aya", "1234 1234x"), (Words{"1", "234", " ", "123", "4", "x"}))
      << "no boundary after the second: cut from the left";
  EXPECT_EQ(cut("superbpe", "\xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4"), (Words{"\xD9\xA1", "\xD9\xA2\xD9\xA3\xD9\xA4"}));
}

TEST(PreTokenizer, KimiCutsHanFromLetters) {
  EXPECT_EQ(cut("kimi-k2",
                "ab\xE4\xBD\xA0\xE5\xA5\xBD"
                "c"),
            (Words{"ab", "\xE4\xBD\xA0\xE5\xA5\xBD", "c"}));
}

TEST(PreTokenizer, Chameleon) {
  EXPECT_EQ(cut("chameleon", "xIMGIMGABZ a,,1\n^^"), (Words{"x", "IMGIMGABZ", " a", ",", ",", "1", "\n", "^", "^"}));
  EXPECT_EQ(cut("chameleon", "x<sentinel:12>"), (Words{"x", "<", "sentinel", ":", "1", "2", ">"}))
      << "the cuts after the first see into its words";
}

TEST(PreTokenizer, Jais2CutsSpacesInPowersOfTwo) {
  EXPECT_EQ(cut("jais2", std::string(13, ' ') + "x"), (Words{std::string(8, ' '), "    ", " x"}));
  EXPECT_EQ(cut("jais2", std::string(700, ' ')),
            (Words{std::string(512, ' '), std::string(128, ' '), std::string(32, ' '), std::string(16, ' '),
                   std::string(8, ' '), "    "}));
  EXPECT_EQ(cut("jais2", "a   \n   1"), (Words{"a", "   \n", "  ", " ", "1"}));
}

TEST(PreTokenizer, LinesAndWhitespace) {
  EXPECT_EQ(cut("lines", "a b\n\nc"), (Words{"a b", "\n\n", "c"}));
  EXPECT_EQ(cut("whitespace", "a,b  c"), (Words{"a,b", "  ", "c"}));
}

TEST(PreTokenizer, ExaoneMoeKeepsLettersWithSpacesBetween) {
  EXPECT_EQ(cut("exaone-moe", "a b c1"), (Words{"a b c", "1"}));
}

}  // namespace
}  // namespace tessera::text
