#include "tessera/text/rwkv.h"

#include <gtest/gtest.h>

#include "tessera/text/detokenize.h"
#include "tessera/text/token_trie.h"
#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera::text {
namespace {

using testing::Ids;
using testing::ids;
using testing::make_tokenizer;
using testing::small_vocab;
using testing::SmallToken;

VocabData rwkv_vocab(const std::vector<SmallToken>& tokens) {
  VocabData data = small_vocab(tokens);
  data.model = "rwkv";
  return data;
}

TEST(Rwkv, TheLongestTokenComesFirst) {
  const VocabData data = rwkv_vocab({{"a"}, {"ab"}, {"abcd"}, {"c"}, {"b"}});
  EXPECT_EQ(ids(data, "abcabcd"), (Ids{4, 6, 5}));
  EXPECT_EQ(ids(data, "ab", {.add_special = true}), Ids{4}) << "neither BOS nor EOS";
}

TEST(Rwkv, TokensAreWrittenAsPythonWritesBytes) {
  const VocabData data = rwkv_vocab({{"\\n"}, {"\\t\\r"}, {"\\xff\\x00"}, {"\\\\"}, {"\\'"}, {"\\q"}, {"q"}, {"\\x4"}});
  EXPECT_EQ(ids(data, std::string_view("\n\t\r\xFF\0\\'\\qq\\x4", 13)), (Ids{3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(detokenize(*make_tokenizer(data), Ids{3, 4, 5, 6, 7, 8, 9, 10}).value(),
            std::string_view("\n\t\r\xFF\0\\'\\qq\\x4", 13));
}

TEST(Rwkv, AByteOfNoTokenIsUnknownOrAnError) {
  VocabData data = rwkv_vocab({{"a"}});
  EXPECT_ERROR(make_tokenizer(data)->tokenize("ab"), "\"b\"");
  data.special_ids[static_cast<size_t>(SpecialToken::unknown)] = 0;
  EXPECT_EQ(ids(data, "ab"), (Ids{3, 0}));
}

TEST(Rwkv, UserTextNeverBecomesAControlToken) {
  EXPECT_EQ(ids(rwkv_vocab({{"<"}, {"s"}, {">"}}), "<s>"), (Ids{3, 4, 5}));
}

TEST(TokenTrie, FindsTheLongestAndNothingThatIsNotThere) {
  const std::string big(kMaxMatchBytes, 'x');
  const std::string above(kMaxMatchBytes + 1, 'y');
  const auto trie = TokenTrie::create({{"ab", 1}, {"a", 0}, {"abc", 2}, {"abc", 3}, {"", 4}, {big, 5}, {above, 6}});
  ASSERT_OK(trie);
  EXPECT_EQ(trie->longest("abcd")->id, 2) << "the first of two";
  EXPECT_EQ(trie->longest("abd")->n_bytes, 2u);
  EXPECT_EQ(trie->longest("b"), std::nullopt);
  EXPECT_EQ(trie->longest(""), std::nullopt);
  EXPECT_EQ(trie->longest(big + "x")->id, 5);
  EXPECT_EQ(trie->longest(above), std::nullopt);
  EXPECT_EQ(TokenTrie::create({})->longest("a"), std::nullopt);
}

}  // namespace
}  // namespace tessera::text
