// The behaviour common to all tokenizers, tested with small SPM vocabularies.
#include "tessera/text/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera::text {
namespace {

using enum TokenType;
using testing::make_tokenizer;
using testing::small_vocab;
using Ids = std::vector<int32_t>;

constexpr TokenizeOptions kParse{.add_special = false, .parse_special = true};

Ids ids(const Tokenizer& tokenizer, std::string_view text, TokenizeOptions options = {}) {
  const auto tokens = tokenizer.tokenize(text, options);
  EXPECT_OK(tokens);
  return tokens.value_or(Ids{});
}

TEST(Tokenizer, AddSpecialAddsWhatTheVocabularySays) {
  VocabData data = small_vocab({{"a"}});
  EXPECT_EQ(ids(*make_tokenizer(data), "a", {.add_special = true}), (Ids{1, 3}));
  data.add_bos = false;
  data.add_eos = true;
  EXPECT_EQ(ids(*make_tokenizer(data), "a", {.add_special = true}), (Ids{3, 2}));
  EXPECT_EQ(ids(*make_tokenizer(data), "a"), (Ids{3}));
}

TEST(Tokenizer, EmptyTextGivesOnlyBos) {
  const auto tokenizer = make_tokenizer(small_vocab({{"a"}}));
  EXPECT_EQ(ids(*tokenizer, ""), Ids{});
  EXPECT_EQ(ids(*tokenizer, "", {.add_special = true}), Ids{1});
}

TEST(Tokenizer, ControlTokensAreFoundOnlyWhenAsked) {
  const auto tokenizer =
      make_tokenizer(small_vocab({{"a"}, {"<", 0}, {"s"}, {">"}, {"<s"}, {"<e>", 0, control}, {"e"}}));
  EXPECT_EQ(ids(*tokenizer, "a<e>a", kParse), (Ids{3, 8, 3}));
  EXPECT_EQ(ids(*tokenizer, "a<e>a"), (Ids{3, 4, 9, 6, 3}));
}

TEST(Tokenizer, ControlTokensAreNotFoundOnGivenBytes) {
  const auto tokenizer =
      make_tokenizer(small_vocab({{"a"}, {"<"}, {">"}, {"e"}, {"<e>", 0, control}, {"aa", 0, user_defined}}));
  const auto tokens = [&](std::vector<ByteRange> given) {
    return ids(*tokenizer, "<e>a<e>", {.parse_special = true, .given = given});
  };
  EXPECT_EQ(tokens({}), (Ids{7, 3, 7}));
  EXPECT_EQ(tokens({{0, 3}}), (Ids{4, 6, 5, 3, 7}));
  EXPECT_EQ(tokens({{2, 5}}), (Ids{4, 6, 5, 3, 4, 6, 5}));  // one byte of each is enough
  EXPECT_EQ(tokens({{3, 4}}), (Ids{7, 3, 7}));              // neighbours do not count
  EXPECT_EQ(tokens({{0, 1}, {4, 7}}), (Ids{4, 6, 5, 3, 4, 6, 5}));
  const ByteRange all{0, 2};
  EXPECT_EQ(ids(*tokenizer, "aa", {.parse_special = true, .given = {&all, 1}}), Ids{8});
}

TEST(Tokenizer, UserTextNeverMergesIntoAControlToken) {
  const auto tokenizer = make_tokenizer(small_vocab({{"<"}, {"s"}, {">"}, {"<s"}}));  // one merge from <s>
  EXPECT_EQ(ids(*tokenizer, "<s>"), (Ids{6, 5}));
}

TEST(Tokenizer, UserDefinedTokensAreFoundAlways) {
  const auto tokenizer = make_tokenizer(small_vocab({{"a"}, {"aa", 0, user_defined}}));
  EXPECT_EQ(ids(*tokenizer, "aaa"), (Ids{4, 3}));
  EXPECT_EQ(ids(*tokenizer, "aaa", kParse), (Ids{4, 3}));
}

TEST(Tokenizer, UnknownIsFoundWithParseSpecial) {
  EXPECT_EQ(ids(*make_tokenizer(small_vocab({{"a"}})), "a<unk>", kParse), (Ids{3, 0}));
}

TEST(Tokenizer, TheLongestSpecialTokenAtAPlaceWins) {
  const auto tokenizer =
      make_tokenizer(small_vocab({{"[a", 0, control}, {"[ab]", 0, control}, {"[abc", 0, control}, {"b"}}));
  EXPECT_EQ(ids(*tokenizer, "[ab][ab[abc", kParse), (Ids{4, 3, 6, 5}));
}

TEST(Tokenizer, ALongerControlTokenDoesNotHideAUserDefinedOne) {
  const auto tokenizer = make_tokenizer(small_vocab({{"[a", 0, user_defined}, {"[ab", 0, control}, {"b"}}));
  EXPECT_EQ(ids(*tokenizer, "[ab"), (Ids{3, 5}));
  EXPECT_EQ(ids(*tokenizer, "[ab", kParse), (Ids{4}));
}

TEST(Tokenizer, ASpecialTokenLongerThanTheBoundIsText) {
  const std::string at(kMaxSpecialBytes, 'x');
  const std::string above(kMaxSpecialBytes + 1, 'y');
  const auto tokenizer = make_tokenizer(small_vocab({{at, 0, control}, {above, 0, control}, {"x"}, {"y"}}));
  EXPECT_EQ(ids(*tokenizer, at, kParse), (Ids{3}));
  EXPECT_EQ(ids(*tokenizer, above, kParse), Ids(kMaxSpecialBytes + 1, 6));
}

TEST(Tokenizer, Phi3SpecialTokensSwallowTheWhitespaceToTheirRight) {
  VocabData data =
      small_vocab({{"a"}, {"\xE2\x96\x81"}, {"\n"}, {"<|end|>", 0, control}, {"<|endoftext|>", 0, control}});
  data.name = "Phi-3 mini";
  const auto phi = make_tokenizer(data);
  EXPECT_EQ(ids(*phi, "a <|end|> \n a", kParse), (Ids{3, 4, 6, 3}));
  EXPECT_EQ(ids(*phi, "<|end|> ", kParse), (Ids{6}));
  EXPECT_EQ(ids(*phi, "<|endoftext|> a", kParse), (Ids{7, 4, 3}));
  EXPECT_EQ(ids(*phi, "<s> a", kParse), (Ids{1, 4, 3}));
  data.name = "other";
  EXPECT_EQ(ids(*make_tokenizer(data), "<|end|> a", kParse), (Ids{6, 4, 3}));
}

TEST(Tokenizer, AMaskTokenSwallowsTheWhitespaceToItsLeft) {
  VocabData data = small_vocab({{"a"}, {"\xE2\x96\x81"}, {"<mask>", 0, control}});
  data.architecture = "jina-bert-v3";
  const auto tokenizer = make_tokenizer(data);
  EXPECT_EQ(ids(*tokenizer, "a \n<mask> a", kParse), (Ids{3, 5, 4, 3}));
  EXPECT_EQ(ids(*tokenizer, " <mask>", kParse), (Ids{5}));
}

TEST(Tokenizer, AModelThatIsNotBuiltIsAnErrorThatListsThose) {
  VocabData data = small_vocab({{"a"}});
  data.model = "klingon";
  EXPECT_ERROR(Tokenizer::create(Vocab::create(data).value()), "\"klingon\", supported: llama");
}

TEST(Tokenizer, WithoutVocabularyOnlyTextIsRefused) {
  VocabData data;
  data.model = "no_vocab";
  data.n_tokens = 8;
  const auto tokenizer = make_tokenizer(data);
  EXPECT_ERROR(tokenizer->tokenize("a"), "no vocabulary");
  EXPECT_EQ(ids(*tokenizer, ""), Ids{});
}

TEST(Tokenizer, ATextAboveTheLimitIsRefused) {
  const auto tokenizer = make_tokenizer(small_vocab({{"a"}}));
  const char byte = 'a';
  EXPECT_ERROR(tokenizer->tokenize({&byte, kMaxTextBytes + 1}),
               "limit 536870912");  // refused before it is read
}

}  // namespace
}  // namespace tessera::text
