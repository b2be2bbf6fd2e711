#include "tessera/text/vocab.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera::text {
namespace {

using enum TokenType;
using testing::small_vocab;

void set_id(VocabData& data, SpecialToken which, int64_t id) { data.special_ids[static_cast<size_t>(which)] = id; }

TEST(Vocab, ScoresOfAnotherLengthAreAnError) {
  for (const size_t n : {0, 3, 5}) {
    VocabData data = small_vocab({{"a"}});
    data.scores->resize(n);
    EXPECT_ERROR(Vocab::create(data), "tokenizer.ggml.scores");
  }
}

TEST(Vocab, TypesOfAnotherLengthAreAnError) {
  for (const size_t n : {0, 3, 5}) {
    VocabData data = small_vocab({{"a"}});
    data.types->resize(n);
    EXPECT_ERROR(Vocab::create(data), "tokenizer.ggml.token_type");
  }
}

TEST(Vocab, ATypeOutOfRangeIsAnErrorThatNamesTheToken) {
  for (const int32_t type : {-1, 7, INT32_MAX, INT32_MIN}) {
    VocabData data = small_vocab({{"a"}});
    (*data.types)[3] = type;
    EXPECT_ERROR(Vocab::create(data), "token_type[3]");
  }
}

TEST(Vocab, ANanScoreIsAnError) { EXPECT_ERROR(Vocab::create(small_vocab({{"a", NAN}})), "scores[3]"); }

TEST(Vocab, AbsentScoresAndTypesTakeDefaults) {
  VocabData data = small_vocab({{"a"}, {"<0x41>"}});
  data.scores.reset();
  data.types.reset();
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(data));
  EXPECT_EQ(vocab->score(3), 0.0f);
  EXPECT_EQ(vocab->type(3), normal);
  EXPECT_EQ(vocab->type(4), byte);
}

TEST(Vocab, NoTokensIsAnError) {
  VocabData data;
  data.model = "llama";
  EXPECT_ERROR(Vocab::create(data), "no tokens");
}

TEST(Vocab, DefaultIdsOutsideATinyVocabularyAreAbsent) {
  VocabData data;
  data.model = "llama";
  data.tokens = {"a"};
  ASSERT_OK_AND_ASSIGN(const auto one, Vocab::create(data));
  EXPECT_EQ(one->special(SpecialToken::unknown), 0);
  EXPECT_EQ(one->special(SpecialToken::bos), std::nullopt);
  data.tokens = {"a", "b"};
  ASSERT_OK_AND_ASSIGN(const auto two, Vocab::create(data));
  EXPECT_EQ(two->special(SpecialToken::bos), 1);
  EXPECT_EQ(two->special(SpecialToken::eos), std::nullopt);
}

TEST(Vocab, AnIdOutOfRangeIsAnErrorThatNamesItsKey) {
  for (const int64_t id : {int64_t{4}, int64_t{1000000000}, int64_t{-2}, INT64_MIN, INT64_MAX}) {
    VocabData data = small_vocab({{"a"}});
    set_id(data, SpecialToken::bos, id);
    EXPECT_ERROR(Vocab::create(data), "tokenizer.ggml.bos_token_id");
  }
}

TEST(Vocab, MinusOneIsAnAbsentIdAndNotTheDefault) {
  for (const int64_t id : {int64_t{-1}, int64_t{0xFFFFFFFF}}) {
    VocabData data = small_vocab({{"a"}});
    set_id(data, SpecialToken::bos, id);
    ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(data));
    EXPECT_EQ(vocab->special(SpecialToken::bos), std::nullopt);
  }
}

TEST(Vocab, APaddingIdOutOfRangeIsDropped) {
  VocabData data = small_vocab({{"a"}});
  set_id(data, SpecialToken::padding, 4);
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(data));
  EXPECT_EQ(vocab->special(SpecialToken::padding), std::nullopt);
}

TEST(Vocab, ByteTokensAreFoundByTheirByte) {
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(small_vocab({{"<0x00>", 0, byte}, {"<0xfF>", 0, byte}})));
  EXPECT_EQ(vocab->byte_token(0), 3);
  EXPECT_EQ(vocab->byte_token(255), 4);
  EXPECT_EQ(vocab->byte_value(4), 255);
  EXPECT_EQ(vocab->byte_token(1), std::nullopt);
}

TEST(Vocab, MalformedByteTokensAreOrdinaryText) {
  for (const std::string_view text : {"<0x-1>", "<0x4>", "<0x041>", "<0xG0>", "<0x 1>", "<0x+1>", "<0x41", "0x41>"}) {
    ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(small_vocab({{text, 0, byte}})));
    EXPECT_EQ(vocab->type(3), normal) << text;
    EXPECT_EQ(vocab->find(text), 3) << text;
    for (int value = 0; value < 256; ++value) EXPECT_EQ(vocab->byte_token(static_cast<uint8_t>(value)), std::nullopt);
  }
}

TEST(Vocab, TwoTokensOfOneTextAreAnErrorThatNamesBoth) {
  EXPECT_ERROR(Vocab::create(small_vocab({{"a"}, {"b"}, {"a"}})), "3 and 5 are both \"a\"");
  EXPECT_ERROR(Vocab::create(small_vocab({{"a", 0, user_defined}, {"a", 0, user_defined}})), "3 and 4");
}

TEST(Vocab, TwoTokensOfOneByteAreAnError) {
  EXPECT_ERROR(Vocab::create(small_vocab({{"<0x0A>", 0, byte}, {"<0x0a>", 0, byte}})), "3 and 4 are both the byte");
}

TEST(Vocab, DuplicatesThatDoNotSpellTextAreHarmless) {
  const auto vocab =
      Vocab::create(small_vocab({{"a", 0, unused}, {"a", 0, unused}, {"b", 0, control}, {"b"}, {"b", 0, control}}));
  ASSERT_OK(vocab);
  EXPECT_EQ((*vocab)->find("a"), 3);
  EXPECT_EQ((*vocab)->find("b"), 6) << "the one that spells text comes first";
}

TEST(Vocab, EmptyTextsAreNeverFound) {
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(small_vocab({{""}, {""}})));
  EXPECT_EQ(vocab->find(""), std::nullopt);
}

TEST(Vocab, FindsEveryTokenOfAMegabyteToo) {
  const std::string big(1 << 20, 'x');
  VocabData data = small_vocab({{"a"}, {"ab"}});
  data.tokens.push_back(big);
  data.scores->push_back(0);
  data.types->push_back(1);
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(data));
  EXPECT_EQ(vocab->find("a"), 3);
  EXPECT_EQ(vocab->find("ab"), 4);
  EXPECT_EQ(vocab->find(big), 5);
  EXPECT_EQ(vocab->find("abc"), std::nullopt);
}

TEST(Vocab, EndOfGenerationIsEosEotEomAndKnownSpecialTexts) {
  VocabData data = small_vocab({{"a"}, {"b"}, {"<|im_end|>", 0, control}, {"<end_of_turn>", 0, user_defined}, {"c"}});
  set_id(data, SpecialToken::eot, 3);
  set_id(data, SpecialToken::eom, 4);
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(data));
  for (const int64_t id : {2, 3, 4, 5, 6}) EXPECT_TRUE(vocab->is_eog(id)) << id;
  for (const int64_t id : {-1, 0, 1, 7, 8, 1000000}) EXPECT_FALSE(vocab->is_eog(id)) << id;
}

TEST(Vocab, AnEndTextAsOrdinaryTextEndsNothing) {
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(small_vocab({{"[EOS]"}})));
  EXPECT_FALSE(vocab->is_eog(3));
}

TEST(Vocab, AUserDefinedEndTextBecomesControl) {
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(small_vocab({{"<|im_end|>", 0, user_defined}})));
  EXPECT_EQ(vocab->type(3), control);
}

TEST(Vocab, EndGoesOnWhereReturnAndCallEnd) {
  const auto vocab =
      Vocab::create(small_vocab({{"<|end|>", 0, control}, {"<|return|>", 0, control}, {"<|call|>", 0, control}}));
  ASSERT_OK(vocab);
  EXPECT_FALSE((*vocab)->is_eog(3));
  EXPECT_TRUE((*vocab)->is_eog(4));
}

TEST(Vocab, FlagsOfTheFileOverrideTheModelsDefaults) {
  VocabData data;
  data.model = "llama";
  data.tokens = {"a"};
  ASSERT_OK_AND_ASSIGN(const auto defaults, Vocab::create(data));
  EXPECT_TRUE(defaults->add_bos());
  EXPECT_FALSE(defaults->add_eos());
  EXPECT_TRUE(defaults->add_space_prefix());
  data.add_bos = false;
  data.add_eos = true;
  data.add_space_prefix = false;
  ASSERT_OK_AND_ASSIGN(const auto given, Vocab::create(data));
  EXPECT_FALSE(given->add_bos());
  EXPECT_TRUE(given->add_eos());
  EXPECT_FALSE(given->add_space_prefix());
}

TEST(Vocab, AModelWithoutVocabularyHasIdsOnly) {
  VocabData data;
  data.model = "no_vocab";
  data.n_tokens = 256;
  set_id(data, SpecialToken::eos, 7);
  ASSERT_OK_AND_ASSIGN(const auto vocab, Vocab::create(data));
  EXPECT_FALSE(vocab->has_text());
  EXPECT_EQ(vocab->n_tokens(), 256u);
  EXPECT_TRUE(vocab->is_eog(7));
  EXPECT_EQ(vocab->find("a"), std::nullopt);
}

TEST(Vocab, MoreTokensThanAnIdCanNameAreAnError) {
  VocabData data;
  data.model = "no_vocab";
  data.n_tokens = uint64_t{1} << 31;
  EXPECT_ERROR(Vocab::create(data), "limit");
}

}  // namespace
}  // namespace tessera::text
