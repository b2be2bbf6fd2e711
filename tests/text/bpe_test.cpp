#include "tessera/text/bpe.h"

#include <gtest/gtest.h>

#include <random>

#include "tessera/text/byte_signs.h"
#include "tessera/text/detokenize.h"
#include "tessera/text/unicode.h"
#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera::text {
namespace {

using enum TokenType;
using testing::Ids;
using testing::ids;
using testing::make_tokenizer;
using testing::small_vocab;
using testing::SmallToken;

VocabData bpe_vocab(const std::vector<SmallToken>& tokens, std::vector<std::string_view> merges,
                    std::string pre = "gpt-2") {
  VocabData data = small_vocab(tokens);
  data.model = "gpt2";
  data.pre = std::move(pre);
  data.merges = std::move(merges);
  return data;
}

TEST(Bpe, MergesAreAppliedInTheirOrder) {
  const std::vector<SmallToken> tokens{{"a"}, {"b"}, {"c"}, {"ab"}, {"bc"}, {"abc"}};
  EXPECT_EQ(ids(bpe_vocab(tokens, {"a b", "b c"}), "abc"), (Ids{6, 5}));
  EXPECT_EQ(ids(bpe_vocab(tokens, {"b c", "a b"}), "abc"), (Ids{3, 7}));
  EXPECT_EQ(ids(bpe_vocab(tokens, {"b c", "a bc"}), "abc"), (Ids{8}));
}

TEST(Bpe, OfEqualMergesTheLeftmostComesFirst) {
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {"aa"}}, {"a a"}), "aaaaa"), (Ids{4, 4, 3}));
}

TEST(Bpe, ATokenWithoutMergesIsOnlyReachedWhereWholeWordsCount) {
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {"b"}, {"ab"}}, {}), "ab"), (Ids{3, 4}));
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {"b"}, {"ab"}}, {}, "llama-bpe"), "ab"), Ids{5});
}

TEST(Bpe, UserTextNeverBecomesAControlToken) {
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {"b"}, {"ab", 0, control}}, {"a b"}), "ab"), (Ids{3, 4}));
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {"b"}, {"ab", 0, control}}, {}, "llama-bpe"), "ab"), (Ids{3, 4}));
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {"b"}, {"ab", 0, control}}, {}), "ab", {.parse_special = true}), Ids{5});
}

TEST(Bpe, AMergeThroughATextThatIsNoTokenIsSpelledInBytesWhereItStays) {
  const VocabData data = bpe_vocab({{"a"}, {"b"}, {"c"}, {"abc"}}, {"a b", "ab c"});
  EXPECT_EQ(ids(data, "abc"), Ids{6});
  EXPECT_EQ(ids(data, "ab"), (Ids{3, 4}));
}

TEST(Bpe, OfTwoMergesForOnePairTheFirstCounts) {
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {"b"}, {"c"}, {"ab"}, {"bc"}}, {"b c", "a b", "b c"}), "abc"), (Ids{3, 7}));
}

TEST(Bpe, MergesThatNameUnknownTokensAreHarmless) {
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {"b"}}, {"x y", "xy z", "a y", "\xFF \xFE"}), "ab"), (Ids{3, 4}));
}

TEST(Bpe, AMalformedMergeIsAnErrorThatNamesIt) {
  for (const std::string_view merge : {"", "a", "ab", "a ", " a"}) {
    VocabData data = bpe_vocab({{"a"}, {"b"}}, {"a b", merge});
    EXPECT_ERROR(Tokenizer::create(Vocab::create(data).value()), "merges[1]");
  }
}

TEST(Bpe, BytesAreTheirSigns) {
  // U+0120 represents a space, U+010A a newline, U+00C3 and U+00A9 the bytes of e-acute.
  const VocabData data =
      bpe_vocab({{"\xC4\xA0"}, {"\xC4\x8A"}, {"\xC3\x83"}, {"\xC2\xA9"}, {"\xC3\x83\xC2\xA9"}}, {"\xC3\x83 \xC2\xA9"});
  EXPECT_EQ(ids(data, " \n\xC3\xA9\xC3"), (Ids{3, 4, 7, 5}));
  EXPECT_EQ(detokenize(*make_tokenizer(data), Ids{3, 4, 7, 5}).value(), " \n\xC3\xA9\xC3");
}

TEST(Bpe, EveryByteHasItsOwnSign) {
  std::vector<bool> seen(kEndOfSigns);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t sign = kByteSigns.sign[byte];
    EXPECT_FALSE(seen[sign]);
    seen[sign] = true;
    EXPECT_EQ(byte_of_sign(sign), static_cast<uint8_t>(byte));
  }
  EXPECT_EQ(byte_of_sign(' '), std::nullopt);
  EXPECT_EQ(byte_of_sign(0x10000), std::nullopt);
}

TEST(Bpe, ABytesOfNoTokenIsUnknownWhereThereIsOneAndElseLeftOut) {
  VocabData data = bpe_vocab({{"a"}}, {});
  EXPECT_EQ(ids(data, "aba"), (Ids{3, 3}));
  data.special_ids[static_cast<size_t>(SpecialToken::unknown)] = 0;
  EXPECT_EQ(ids(data, "aba"), (Ids{3, 0, 3}));
}

TEST(Bpe, LongWordsMergeLikeShortOnes) {
  // Compares the queue with step-by-step merging, lowest rank first, leftmost on ties. Seed 1.
  const std::vector<std::string_view> merges{"a b", "b a", "ab a", "a a", "ba ba", "aba b", "c a", "aa c"};
  const VocabData data =
      bpe_vocab({{"a"}, {"b"}, {"c"}, {"ab"}, {"ba"}, {"aba"}, {"aa"}, {"baba"}, {"abab"}, {"ca"}, {"aac"}}, merges);
  const auto vocab = Vocab::create(data).value();
  const auto tokenizer = make_tokenizer(data);
  std::mt19937 random(1);
  for (const size_t n : {5, 24, 25, 100, 400}) {
    for (int round = 0; round < 30; ++round) {
      std::vector<std::string> parts;
      std::string text;
      for (size_t i = 0; i < n; ++i) text += parts.emplace_back(1, "abc"[random() % 3]);
      for (size_t rank = 0; rank < merges.size();) {
        const auto same = [&](size_t i) { return parts[i] + " " + parts[i + 1] == merges[rank]; };
        size_t i = 0;
        while (i + 1 < parts.size() && !same(i)) ++i;
        if (i + 1 >= parts.size()) {
          ++rank;
          continue;
        }
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        rank = 0;
      }
      Ids want;
      for (const std::string& part : parts) want.push_back(*vocab->find(part));
      EXPECT_EQ(tokenizer->tokenize(text).value(), want) << text;
    }
  }
}

TEST(Bpe, AnUnknownPreTokenizerWarnsAndSaysWhatStandsIn) {
  const auto unknown = make_tokenizer(bpe_vocab({{"a"}}, {}, "klingon"));
  ASSERT_EQ(unknown->warnings().size(), 1u);
  EXPECT_NE(unknown->warnings()[0].find("\"klingon\" is not known"), std::string::npos);
  EXPECT_NE(unknown->warnings()[0].find("\"default\""), std::string::npos);
  EXPECT_EQ(make_tokenizer(bpe_vocab({{"a"}}, {}, ""))->warnings().size(), 1u);
  EXPECT_TRUE(make_tokenizer(bpe_vocab({{"a"}}, {}))->warnings().empty());
}

TEST(Bpe, SomePreTokenizersAddBosAndTheFileHasTheLastWord) {
  VocabData data = bpe_vocab({{"a"}}, {}, "llama-bpe");
  data.special_ids[static_cast<size_t>(SpecialToken::bos)] = 1;
  EXPECT_EQ(ids(data, "a", {.add_special = true}), (Ids{1, 3}));
  data.add_bos = false;
  EXPECT_EQ(ids(data, "a", {.add_special = true}), Ids{3});
  data.pre = "gpt-2";
  data.add_bos.reset();
  EXPECT_EQ(ids(data, "a", {.add_special = true}), Ids{3});
}

TEST(Bpe, SomePreTokenizersPutASeparatorBetweenPairs) {
  EXPECT_TRUE(Vocab::create(bpe_vocab({{"a"}}, {}, "jina-v2-code")).value()->add_sep());
  EXPECT_FALSE(Vocab::create(bpe_vocab({{"a"}}, {}, "gpt-2")).value()->add_sep());
}

TEST(Bpe, GlmHasNoBosUnlessTheFileNamesOne) {
  std::vector<std::string> letters;
  for (char c = 'a'; c < 'a' + 20; ++c) letters.emplace_back(1, c);
  const std::vector<SmallToken> tokens(letters.begin(), letters.end());
  EXPECT_EQ(Vocab::create(bpe_vocab(tokens, {}, "gpt-2")).value()->special(SpecialToken::bos), 11);
  VocabData data = bpe_vocab(tokens, {}, "glm4");
  EXPECT_EQ(Vocab::create(data).value()->special(SpecialToken::bos), std::nullopt);
  data.special_ids[static_cast<size_t>(SpecialToken::bos)] = 1;
  EXPECT_EQ(Vocab::create(data).value()->special(SpecialToken::bos), 1);
}

TEST(Bpe, Gemma4SpellsTokensInUtf8AndBytesInHex) {
  VocabData data = bpe_vocab({{"a"},
                              {"\xE2\x96\x81"},
                              {"\xE2\x96\x81"
                               "a"},
                              {"\n"},
                              {"\n\n"},
                              {"<0xC3>", 0, byte},
                              {"<0xA9>", 0, byte}},
                             {"\xE2\x96\x81 a"});
  data.model = "gemma4";
  data.special_ids[static_cast<size_t>(SpecialToken::bos)] = 1;
  data.add_bos = false;  // the model needs it anyway
  EXPECT_EQ(ids(data, "a a\n\n\xC3\xA9", {.add_special = true}), (Ids{1, 3, 5, 7, 8, 9}));
  EXPECT_EQ(detokenize(*make_tokenizer(data), Ids{3, 5, 7, 8, 9}).value(), "a a\n\n\xC3\xA9");
  EXPECT_TRUE(make_tokenizer(data)->warnings().empty());
}

TEST(Bpe, TheWhitespacePreTokenizerDropsTheSpaces) {
  EXPECT_EQ(ids(bpe_vocab({{"a"}, {" "}}, {}, "whitespace"), "a  a"), (Ids{3, 3}));
}

TEST(Bpe, UserDefinedTokensAreTheirText) {
  const auto tokenizer = make_tokenizer(bpe_vocab({{"\xC4\xA0", 0, user_defined}, {"\xC4\xA0x"}}, {}));
  EXPECT_EQ(detokenize(*tokenizer, Ids{3, 4}).value(), "\xC4\xA0 x");
}

TEST(Bpe, AVocabularyOfOneTokenWorks) {
  VocabData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.tokens = {"a"};
  EXPECT_EQ(ids(data, "aa", {.add_special = true}), (Ids{0, 0}));
}

}  // namespace
}  // namespace tessera::text
