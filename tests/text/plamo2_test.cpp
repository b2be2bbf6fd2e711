#include "tessera/text/plamo2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tessera/text/detokenize.h"
#include "tessera/text/token_trie.h"
#include "tests/support/byte_tokens.h"
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

// Ids: 0 <unk>, 1 <s>, 2 </s>, 3 <pad>, then the 256 bytes, then the tokens of a test.
constexpr int32_t kFirstByte = 4;
constexpr int32_t kFirst = kFirstByte + 256;

VocabData plamo2_vocab(const std::vector<SmallToken>& tokens) {
  std::vector<SmallToken> all{{"<pad>", 0, control}};
  for (const SmallToken& token : testing::byte_tokens()) all.push_back(token);
  all.insert(all.end(), tokens.begin(), tokens.end());
  VocabData data = small_vocab(all);
  data.model = "plamo2";
  data.add_space_prefix.reset();
  return data;
}

Ids byte_ids(std::string_view bytes) {
  Ids tokens;
  for (const char c : bytes) tokens.push_back(kFirstByte + static_cast<uint8_t>(c));
  return tokens;
}

TEST(Plamo2, TheLeastCostWins) {
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1}, {"b", -1}, {"ab", -1.5}}), "ab"), Ids{kFirst + 2});
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1}, {"b", -1}, {"ab", -2.5}}), "ab"), (Ids{kFirst, kFirst + 1}));
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1}, {"ab", -1}, {"bc", -1}, {"c", -9}}), "abc"), (Ids{kFirst, kFirst + 2}));
  EXPECT_EQ(ids(plamo2_vocab({{"a", 3}, {"aa", 5}}), "aa"), (Ids{kFirst, kFirst})) << "scores may be above 0";
}

TEST(Plamo2, OfEqualCostsTheLongestTokenWins) {
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1}, {"b", -1}, {"ab", -2}}), "ab"), Ids{kFirst + 2});
  // From the start: a+bc and ab+c cost the same.
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1}, {"bc", -1}, {"ab", -1}, {"c", -1}}), "abc"), (Ids{kFirst + 2, kFirst + 3}));
}

TEST(Plamo2, CostsAreWholeNumbers) {
  // Scores of -0.00004 and -0.00006 are costs of 0 and 1.
  EXPECT_EQ(ids(plamo2_vocab({{"a", 0}, {"b", 0}, {"ab", -0.00004f}}), "ab"), Ids{kFirst + 2});
  EXPECT_EQ(ids(plamo2_vocab({{"a", 0}, {"b", 0}, {"ab", -0.00006f}}), "ab"), (Ids{kFirst, kFirst + 1}));
}

TEST(Plamo2, ACodePointOfNoTokenIsSpelledInBytes) {
  const VocabData data = plamo2_vocab({{"a", -1}, {"\xE4\xBD\xA0", -1}});
  EXPECT_EQ(ids(data, "a\xE3\x81\x82z"),
            (Ids{kFirst, kFirstByte + 0xE3, kFirstByte + 0x81, kFirstByte + 0x82, kFirstByte + 'z'}));
  EXPECT_EQ(ids(data, "\xE4\xBD\xA0"), Ids{kFirst + 1});
  EXPECT_EQ(ids(data, std::string_view("\0", 1)), Ids{kFirstByte});
}

TEST(Plamo2, BytesCostAsMuchAsAScoreOfMinusAThousand) {
  EXPECT_EQ(ids(plamo2_vocab({{"a", -999.9999f}}), "a"), Ids{kFirst});
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1000}}), "a"), Ids{kFirst}) << "a token wins a tie";
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1000.0001f}}), "a"), byte_ids("a"));
  // Two code points of one token cost less than their bytes, up to a score of -2000.
  EXPECT_EQ(ids(plamo2_vocab({{"ab", -1999.999f}}), "ab"), Ids{kFirst});
  EXPECT_EQ(ids(plamo2_vocab({{"ab", -2000}}), "ab"), byte_ids("ab"));
  EXPECT_EQ(ids(plamo2_vocab({{"abc", -2500}}), "abc"), byte_ids("abc"));
}

TEST(Plamo2, ScoresWithoutBoundAreHarmless) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  EXPECT_EQ(ids(plamo2_vocab({{"a", -INFINITY}, {"b", INFINITY}}), "ab"), byte_ids("ab"));
  EXPECT_EQ(ids(plamo2_vocab({{"a", -kHuge}}), "aa"), byte_ids("aa"));
  EXPECT_EQ(ids(plamo2_vocab({{"a", kHuge}}), std::string(1000, 'a')), Ids(1000, kFirst));
  EXPECT_ERROR(Vocab::create(plamo2_vocab({{"a", NAN}})), "tokenizer.ggml.scores[260]: NaN");
}

TEST(Plamo2, BytesThatAreNotUtf8ComeBack) {
  const VocabData data = plamo2_vocab({{"a", -1}, {"\xBD\xA0", -1}});
  EXPECT_EQ(ids(data, "a\xFF\xE4\xBD"), (Ids{kFirst, kFirstByte + 0xFF, kFirstByte + 0xE4, kFirstByte + 0xBD}));
  EXPECT_EQ(ids(data, "\xC0\xAF"), byte_ids("\xC0\xAF"));
  const auto tokenizer = make_tokenizer(data);
  for (const std::string_view text : {"\xF0\x9F\x98", "\xED\xA0\x80", "a\x80\x80", "\xF8\x88\x80\x80\x80"})
    EXPECT_EQ(detokenize(*tokenizer, tokenizer->tokenize(text).value()).value(), text);
}

TEST(Plamo2, TokensThatEndInsideACodePointLeadNowhere) {
  EXPECT_EQ(ids(plamo2_vocab({{"\xE4\xBD", 5}, {"\xE4\xBD\xA0", -1}}), "\xE4\xBD\xA0"), Ids{kFirst + 1});
  EXPECT_EQ(ids(plamo2_vocab({{"\xE4\xBD", 5}}), "\xE4\xBD\xA0"), byte_ids("\xE4\xBD\xA0"));
}

TEST(Plamo2, AByteOrderMarkAtTheStartIsDropped) {
  const VocabData data = plamo2_vocab({{"a", -1}, {"\xEF\xBB\xBF", -1}});
  EXPECT_EQ(ids(data,
                "\xEF\xBB\xBF"
                "a\xEF\xBB\xBF"),
            (Ids{kFirst, kFirst + 1}));
  EXPECT_EQ(ids(data, "\xEF\xBB\xBF\xEF\xBB\xBF"), Ids{kFirst + 1}) << "one of them";
  EXPECT_EQ(ids(data, "\xEF\xBB\xBF"), Ids{});
  EXPECT_EQ(ids(data, "\xEF\xBB"), byte_ids("\xEF\xBB"));
}

TEST(Plamo2, AnEmptyTextHasNoTokens) {
  const VocabData data = plamo2_vocab({{"a", -1}});
  EXPECT_EQ(ids(data, ""), Ids{});
  EXPECT_EQ(ids(data, "", {.add_special = true}), Ids{});
}

TEST(Plamo2, OnlyNormalTokensAreText) {
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1}, {"b", -1}, {"ab", 0, unused}, {"ba", 0, control}}), "aba"),
            (Ids{kFirst, kFirst + 1, kFirst}));
  EXPECT_EQ(ids(plamo2_vocab({{"a", -1}}), "<0x41>").size(), 6u) << "the text of a byte token is no token";
  EXPECT_EQ(ids(plamo2_vocab({{"<|plamo:op|>", 0, control}}), "<|plamo:op|>"), byte_ids("<|plamo:op|>"));
  EXPECT_EQ(ids(plamo2_vocab({{"<|plamo:op|>", 0, control}}), "<|plamo:op|>", {.parse_special = true}), Ids{kFirst});
}

TEST(Plamo2, HasTheDefaultsOfItsModel) {
  const VocabData data = plamo2_vocab({{"a", -1}, {" a", -1}});
  const auto vocab = Vocab::create(data).value();
  EXPECT_EQ(vocab->special(SpecialToken::unknown), 0);
  EXPECT_EQ(vocab->special(SpecialToken::bos), 1);
  EXPECT_EQ(vocab->special(SpecialToken::eos), 2);
  EXPECT_EQ(vocab->special(SpecialToken::padding), 3);
  EXPECT_EQ(ids(data, "a", {.add_special = true}), Ids{kFirst}) << "neither BOS, EOS nor a space";
  VocabData other = data;
  other.add_bos = other.add_eos = other.add_space_prefix = true;
  EXPECT_EQ(ids(other, "a", {.add_special = true}), (Ids{1, kFirst, 2})) << "the file can ask for BOS and EOS";
  const auto tokenizer = make_tokenizer(other);
  EXPECT_EQ(detokenize(*tokenizer, Ids{kFirst + 1}).value(), " a") << "no space is added or removed";
}

TEST(Plamo2, TheEndOfStrikethroughIsText) {
  // PLaMo has </s> as a normal token, for HTML. Its end of a text is <|plamo:eos|>.
  VocabData data = plamo2_vocab({{"<s>", -20}, {"</s>", -20}});
  data.tokens[1] = "<|plamo:bos|>";
  data.tokens[2] = "<|plamo:eos|>";
  const auto tokenizer = make_tokenizer(data);
  EXPECT_EQ(tokenizer->tokenize("<s>1</s>", {.parse_special = true}).value(),
            (Ids{kFirst, kFirstByte + '1', kFirst + 1}));
  EXPECT_FALSE(tokenizer->vocab().is_eog(kFirst + 1));
  EXPECT_TRUE(tokenizer->vocab().is_eog(2));
}

TEST(Plamo2, PiecesAreAsStored) {
  const auto tokenizer = make_tokenizer(plamo2_vocab({{"\xE2\x96\x81"
                                                       "a",
                                                       -1},
                                                      {" b", -1}}));
  EXPECT_EQ(detokenize(*tokenizer, Ids{kFirst, kFirst + 1, kFirstByte + 0xE4}).value(),
            "\xE2\x96\x81"
            "a b\xE4");
  EXPECT_EQ(detokenize(*tokenizer, Ids{1, kFirst + 1}, {.render_special = true}).value(), "<s> b");
}

TEST(Plamo2, TheVocabularyHasAllBytes) {
  for (const size_t byte : {size_t{0}, size_t{0x41}, size_t{255}}) {
    VocabData data = plamo2_vocab({{"a", -1}});
    data.tokens[kFirstByte + byte] = "x";
    EXPECT_ERROR(Tokenizer::create(Vocab::create(data).value()),
                 fmt::format("tokenizer.ggml.tokens: no byte token <0x{:02X}>, want all 256", byte));
  }
  // Forms that are no bytes, which other readers take for some.
  for (const std::string_view text : {"<0x-1>", "<0x4 >", "<0x4>", "<0x041>", "<0X41>"}) {
    VocabData data = plamo2_vocab({{"a", -1}});
    data.tokens[kFirstByte + 0x41] = text;
    EXPECT_ERROR(Tokenizer::create(Vocab::create(data).value()), "no byte token <0x41>");
  }
  VocabData data = plamo2_vocab({{"a", -1}});
  data.types.reset();
  EXPECT_EQ(ids(data, "az"), (Ids{kFirst, kFirstByte + 'z'})) << "without types, the texts say it";
}

TEST(Plamo2, LongTokensAreMatchedUpToALimit) {
  const std::string at(kMaxMatchBytes, 'x'), above(kMaxMatchBytes + 1, 'x');
  const VocabData data = plamo2_vocab({{"x", -1}, {at, -1}, {above, -1}});
  EXPECT_EQ(ids(data, at), Ids{kFirst + 1});
  EXPECT_EQ(ids(data, above).size(), 2u);
}

// A candidate at a place of a text: a token, or one code point in bytes.
struct Candidate {
  size_t n_bytes;
  int64_t cost;
  std::optional<int32_t> id;
};

struct BruteForce {
  const std::vector<SmallToken>& tokens;
  std::vector<Candidate> path{}, best{};
  std::optional<int64_t> least{};

  // Longer ones first, bytes last.
  std::vector<Candidate> candidates(std::string_view rest, size_t n_code_point) const {
    std::vector<Candidate> all;
    for (size_t n = rest.size(); n > 0; --n)
      for (size_t i = 0; i < tokens.size(); ++i)
        if (rest.substr(0, n) == tokens[i].text)
          all.push_back({n, -static_cast<int64_t>(tokens[i].score) * 10'000, kFirst + static_cast<int32_t>(i)});
    all.push_back({n_code_point, 10'000'000, std::nullopt});
    return all;
  }

  // Tries all segmentations. The first of the least cost counts.
  void search(std::string_view rest, int64_t cost) {
    if (rest.empty()) {
      if (!least || cost < *least) least = cost, best = path;
      return;
    }
    const size_t n_code_point = static_cast<uint8_t>(rest[0]) < 0x80 ? 1 : static_cast<uint8_t>(rest[0]) < 0xE0 ? 2 : 3;
    for (const Candidate& candidate : candidates(rest, n_code_point)) {
      path.push_back(candidate);
      search(rest.substr(candidate.n_bytes), cost + candidate.cost);
      path.pop_back();
    }
  }

  Ids ids_of(std::string_view text) const {
    Ids all;
    for (const auto& [n_bytes, cost, id] : best) {
      if (id) all.push_back(*id);
      if (!id)
        for (const int32_t byte : byte_ids(text.substr(0, n_bytes))) all.push_back(byte);
      text.remove_prefix(n_bytes);
    }
    return all;
  }
};

TEST(Plamo2, ChoosesAsASearchOfAllSegmentations) {
  constexpr std::string_view kLetters[] = {"a", "b", "\xC3\xA9", "\xE4\xBD\xA0"};
  // Few scores, so that costs are often equal. That of -1000 costs as much as bytes.
  constexpr float kScores[] = {-1, -2, -3, -4, -999, -1000, -1001, 1};
  std::mt19937 random(1);
  const auto word = [&](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += kLetters[random() % std::size(kLetters)];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> texts;
    while (texts.size() < 8)
      if (std::string text = word(1 + random() % 3); std::ranges::find(texts, text) == texts.end())
        texts.push_back(std::move(text));
    std::vector<SmallToken> tokens;
    for (const std::string& text : texts) tokens.push_back({text, kScores[random() % std::size(kScores)]});
    const auto tokenizer = make_tokenizer(plamo2_vocab(tokens));
    for (int i = 0; i < 4; ++i) {
      const std::string text = word(random() % 8);
      BruteForce brute{tokens};
      brute.search(text, 0);
      EXPECT_EQ(tokenizer->tokenize(text).value(), brute.ids_of(text)) << text;
    }
  }
}

TEST(Plamo2, AnyTextComesBack) {
  const auto tokenizer = make_tokenizer(plamo2_vocab({{"a", -1}, {"ab", -1.5}, {"\xE4\xBD\xA0", -2}, {"\xE4", -1}}));
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) text += "ab\xE4\xBD\xA0\xF0\x9F\x98\xFF "[random() % 10];
    EXPECT_EQ(detokenize(*tokenizer, tokenizer->tokenize(text).value()).value(), text);
  }
}

}  // namespace
}  // namespace tessera::text
