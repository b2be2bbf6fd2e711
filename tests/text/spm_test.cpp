#include "tessera/text/spm.h"

#include <gtest/gtest.h>

#include <random>

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

TEST(Spm, TheBestScoreIsMergedFirst) {
  // ab and bc compete for b.
  EXPECT_EQ(ids(small_vocab({{"a"}, {"b"}, {"c"}, {"ab", -2}, {"bc", -1}}), "abc"), (Ids{3, 7}));
  EXPECT_EQ(ids(small_vocab({{"a"}, {"b"}, {"c"}, {"ab", -1}, {"bc", -2}}), "abc"), (Ids{6, 5}));
}

TEST(Spm, OfEqualScoresTheLeftmostIsMergedFirst) {
  EXPECT_EQ(ids(small_vocab({{"a"}, {"aa", -1}}), "aaaaa"), (Ids{4, 4, 3}));
}

TEST(Spm, AMergeOpensTheNext) {
  const VocabData data = small_vocab({{"a"}, {"b"}, {"c"}, {"bc", -1}, {"abc", -3}});
  EXPECT_EQ(ids(data, "abc"), (Ids{7}));
}

TEST(Spm, ATokenWithoutAChainOfMergesIsNotReached) {
  EXPECT_EQ(ids(small_vocab({{"a"}, {"b"}, {"c"}, {"abc", 5}}), "abc"), (Ids{3, 4, 5}));
}

TEST(Spm, TheCutsBetweenSegmentsChangeNothing) {
  // Compared with step-by-step merging of the whole text, best score first, leftmost on ties. Seed 1.
  const std::vector<SmallToken> tokens{{"a"},
                                       {"b"},
                                       {"c"},
                                       {"\xC3\xA9"},
                                       {"ab", -1},
                                       {"ba", -1},
                                       {"aa", -2},
                                       {"aba", -3},
                                       {"bab", -2},
                                       {"c\xC3\xA9", -1},
                                       {"\xC3\xA9"
                                        "c",
                                        -2},
                                       {"abab", -4},
                                       {"ca", -3}};
  const VocabData data = small_vocab(tokens);
  const auto vocab = Vocab::create(data).value();
  const auto tokenizer = make_tokenizer(data);
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> parts;
    std::string text;
    for (int i = 0; i < 24; ++i) text += parts.emplace_back(tokens[random() % 4].text);
    while (true) {
      size_t best = parts.size();
      float best_score = -100;
      for (size_t i = 0; i + 1 < parts.size(); ++i)
        if (const auto id = vocab->find(parts[i] + parts[i + 1]); id && vocab->score(*id) > best_score)
          best = i, best_score = vocab->score(*id);
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    Ids want;
    for (const std::string& part : parts) want.push_back(*vocab->find(part));
    EXPECT_EQ(tokenizer->tokenize(text).value(), want) << text;
  }
}

TEST(Spm, SpacesAreU2581) {
  EXPECT_EQ(ids(small_vocab({{"a"},
                             {"\xE2\x96\x81"},
                             {"\xE2\x96\x81"
                              "a",
                              -1}}),
                "a a "),
            (Ids{3, 5, 4}));
}

TEST(Spm, ThePrefixSpaceStandsFirstAndAfterSpecialTokens) {
  VocabData data = small_vocab({{"a"}, {"\xE2\x96\x81"}, {"[u]", 0, user_defined}});
  data.add_space_prefix = true;
  EXPECT_EQ(ids(data, "a"), (Ids{4, 3}));
  EXPECT_EQ(ids(data, ""), Ids{});
  EXPECT_EQ(ids(data, "a", {.add_special = true}), (Ids{1, 4, 3}));
  EXPECT_EQ(ids(data, "a<s>a", {.parse_special = true}), (Ids{4, 3, 1, 4, 3}));
  EXPECT_EQ(ids(data, "[u]a"), (Ids{5, 4, 3}));
}

TEST(Spm, ACodePointThatIsNoTokenBecomesItsBytes) {
  const VocabData data = small_vocab({{"a"}, {"<0xC3>", 0, byte}, {"<0xA9>", 0, byte}});
  EXPECT_EQ(ids(data,
                "a\xC3\xA9"
                "a"),
            (Ids{3, 4, 5, 3}));
}

TEST(Spm, ACodePointWithoutAllItsBytesBecomesOneUnknown) {
  EXPECT_EQ(ids(small_vocab({{"a"}, {"<0xC3>", 0, byte}}),
                "\xC3\xA9"
                "a"),
            (Ids{0, 3}));
}

TEST(Spm, TextThatNothingCanSpellIsAnError) {
  VocabData data = small_vocab({{"a"}});
  data.special_ids[static_cast<size_t>(SpecialToken::unknown)] = -1;
  EXPECT_ERROR(make_tokenizer(data)->tokenize("ab"), "\"b\"");
}

TEST(Spm, InvalidUtf8IsTakenByteByByte) {
  const VocabData data = small_vocab({{"a"}, {"<0xF0>", 0, byte}, {"<0x9F>", 0, byte}});
  EXPECT_EQ(ids(data,
                "\xF0\x9F"
                "a"),
            (Ids{4, 5, 3}));
}

TEST(Spm, TheTextOfAByteTokenIsNotThatByte) {
  const VocabData data =
      small_vocab({{"<"}, {"0"}, {"x"}, {"A"}, {">"}, {"<0"}, {"<0x"}, {"<0x0"}, {"<0x0A"}, {"<0x0A>", 9, byte}});
  EXPECT_EQ(ids(data, "<0x0A>"), (Ids{11, 7}));
}

TEST(Spm, NulIsAByteLikeAnyOther) {
  const VocabData data = small_vocab({{"a"}, {"<0x00>", 0, byte}});
  EXPECT_EQ(ids(data, std::string_view("a\0a", 3)), (Ids{3, 4, 3}));
}

}  // namespace
}  // namespace tessera::text
