#include "tessera/text/ugm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tessera/text/detokenize.h"
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

#define SPACE "\xE2\x96\x81"

VocabData ugm_vocab(const std::vector<SmallToken>& tokens) {
  VocabData data = small_vocab(tokens);
  data.model = "t5";
  data.special_ids[static_cast<size_t>(SpecialToken::unknown)] = 0;
  data.special_ids[static_cast<size_t>(SpecialToken::eos)] = 2;
  return data;
}

TEST(Ugm, TheBestSumOfScoresWins) {
  EXPECT_EQ(ids(ugm_vocab({{"a", -1}, {"b", -1}, {"ab", -1.5}}), "ab"), Ids{5});
  EXPECT_EQ(ids(ugm_vocab({{"a", -1}, {"b", -1}, {"ab", -2.5}}), "ab"), (Ids{3, 4}));
  EXPECT_EQ(ids(ugm_vocab({{"a", -1}, {"ab", -1}, {"bc", -1}, {"c", -9}}), "abc"), (Ids{3, 5}));
}

TEST(Ugm, TheWaysAreTheBestOfAll) {
  // Compared with a search of all segmentations. Seed 1.
  const VocabData data = ugm_vocab({{"a", -1}, {"b", -1.25}, {"ab", -2}, {"ba", -1.75}, {"aba", -2.5}, {"bb", -3}});
  const auto vocab = Vocab::create(data).value();
  const auto tokenizer = make_tokenizer(data);
  std::mt19937 random(1);
  const auto best = [&](const auto& self, std::string_view rest) -> float {
    if (rest.empty()) return 0;
    float most = -INFINITY;
    for (size_t n = 1; n <= std::min<size_t>(3, rest.size()); ++n)
      if (const auto id = vocab->find(rest.substr(0, n)))
        most = std::max(most, vocab->score(*id) + self(self, rest.substr(n)));
    return most;
  };
  for (int round = 0; round < 50; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += "ab"[random() % 2];
    float sum = 0;
    const Ids tokens = tokenizer->tokenize(text).value();
    for (const int32_t id : tokens) sum += vocab->score(id);
    EXPECT_EQ(sum, best(best, text)) << text;  // quarters are exact
  }
}

TEST(Ugm, NeighboursThatNoTokenSpellsAreOneUnknown) {
  EXPECT_EQ(ids(ugm_vocab({{"a", -1}}), "axya\xE4\xBD\xA0"), (Ids{3, 0, 3, 0}));
}

TEST(Ugm, ByteTokensSpellWhatNoTokenDoes) {
  EXPECT_EQ(ids(ugm_vocab({{"a", -1}, {"<0x78>", 0, byte}}), "axa"), (Ids{3, 4, 3}));
}

TEST(Ugm, UnusedAndControlTokensAreNoText) {
  EXPECT_EQ(ids(ugm_vocab({{"a", -1}, {"b", -1}, {"ab", 0, unused}, {"ba", 0, control}}), "aba"), (Ids{3, 4, 3}));
}

TEST(Ugm, SpacesAreU2581AndExtraOnesGoWhereTheFileSaysSo) {
  VocabData data = ugm_vocab({{"a", -1}, {SPACE, -1}});
  data.add_space_prefix = true;
  EXPECT_EQ(ids(data, " a  a "), (Ids{4, 4, 3, 4, 4, 3, 4}));
  data.remove_extra_whitespaces = true;
  EXPECT_EQ(ids(data, " a  a "), (Ids{4, 3, 4, 3}));
  EXPECT_EQ(ids(data, "   "), Ids{});
}

TEST(Ugm, EosIsTheDefaultAndBosIsNot) {
  EXPECT_EQ(ids(ugm_vocab({{"a", -1}}), "a", {.add_special = true}), (Ids{3, 2}));
}

TEST(Ugm, ScoresWithoutBoundAreHarmless) {
  EXPECT_EQ(ids(ugm_vocab({{"a", -INFINITY}, {"b", INFINITY}, {"ab", -1}}), "aab").size(), 2u);
}

TEST(Ugm, TokensThatEndInsideACodePointLeadNowhere) {
  EXPECT_EQ(ids(ugm_vocab({{"\xE4\xBD", 5}, {"\xE4\xBD\xA0", -1}}), "\xE4\xBD\xA0"), Ids{4});
}

TEST(Ugm, TextComesBack) {
  VocabData data = ugm_vocab({{SPACE "a", -1}, {"b", -1}});
  data.add_space_prefix = true;
  const auto tokenizer = make_tokenizer(data);
  EXPECT_EQ(detokenize(*tokenizer, tokenizer->tokenize("ab a").value()).value(), "ab a");
}

/// A map from "A" to "B". Unit 0 leads to unit 'A' (label 'A', with a leaf below it), whose value is the offset of a
/// string.
std::vector<uint8_t> small_charsmap(uint32_t value, std::string_view strings) {
  std::vector<uint32_t> trie(256);
  trie[0] = 0;                              // offset 0: the child by 'A' is unit 0x41
  trie[0x41] = 0x41 | 0x100 | 0x80u << 10;  // its leaf is unit 0x41 ^ 0x80
  trie[0x41 ^ 0x80] = 0x80000000u | value;
  std::vector<uint8_t> blob{0, 4, 0, 0};
  for (const uint32_t unit : trie)
    for (unsigned shift = 0; shift < 32; shift += 8) blob.push_back(static_cast<uint8_t>(unit >> shift));
  blob.insert(blob.end(), strings.begin(), strings.end());
  return blob;
}

TEST(Ugm, TheCharacterMapReplacesText) {
  VocabData data = ugm_vocab({{"A", -1}, {"B", -1}, {"c", -1}});
  data.charsmap = small_charsmap(0, std::string_view("B\0", 2));
  EXPECT_EQ(ids(data, "AcA"), (Ids{4, 5, 4}));
  data.charsmap = small_charsmap(2, std::string_view("B\0\0", 3));
  EXPECT_EQ(ids(data, "AcA"), Ids{5}) << "the empty text replaces too";
}

TEST(Ugm, ACharacterMapThatPointsOutsideItselfReplacesNothing) {
  for (const uint32_t value : {2u, 3u, 0x7FFFFFFFu}) {
    VocabData data = ugm_vocab({{"A", -1}});
    data.charsmap = small_charsmap(value, std::string_view("B\0", 2));
    EXPECT_EQ(ids(data, "A"), Ids{3}) << value;
  }
  VocabData open = ugm_vocab({{"A", -1}});
  open.charsmap = small_charsmap(0, "B");  // no NUL
  EXPECT_EQ(ids(open, "A"), Ids{3});
}

TEST(Ugm, ACharacterMapWhoseLengthsDoNotFitIsAnError) {
  for (const std::vector<uint8_t>& blob : {std::vector<uint8_t>{1},
                                           {0, 0, 0},
                                           {5, 0, 0, 0, 1, 2, 3, 4, 5},
                                           {8, 0, 0, 0, 1, 2, 3, 4},
                                           {255, 255, 255, 255}}) {
    VocabData data = ugm_vocab({{"A", -1}});
    data.charsmap = blob;
    EXPECT_ERROR(Tokenizer::create(Vocab::create(data).value()), "precompiled_charsmap");
  }
}

TEST(Ugm, AnyCharacterMapEnds) {
  std::mt19937 random(1);  // random bytes, including cycles
  for (int round = 0; round < 200; ++round) {
    std::vector<uint8_t> blob{0, 4, 0, 0};
    for (int i = 0; i < 1024 + 64; ++i) blob.push_back(static_cast<uint8_t>(random() % (round % 2 == 0 ? 256 : 4)));
    VocabData data = ugm_vocab({{"A", -1}});
    data.charsmap = blob;
    const auto tokenizer = make_tokenizer(data);
    std::string text;
    for (int i = 0; i < 1000; ++i) text += static_cast<char>(random() % 4 + 1);
    EXPECT_OK(tokenizer->tokenize(text));
  }
}

}  // namespace
}  // namespace tessera::text
