// Prompts in all their forms, and their tokens.
#include "tessera/server/json/prompt.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/server/json/json_field.h"
#include "tests/support/small_vocab.h"

namespace tessera::server {
namespace {

using testing::Ids;

FieldResult<std::vector<PromptParts>> prompts_of(std::string_view text, const PromptLimits& limits = {}) {
  const auto json = read_json_field(text);
  EXPECT_TRUE(json) << text;
  return json ? read_prompts(*json, "prompt", limits) : std::unexpected(json.error());
}

std::string refusal_of_prompts(std::string_view text, const PromptLimits& limits = {}) {
  const auto read = prompts_of(text, limits);
  EXPECT_FALSE(read) << text;
  return read ? "read" : read.error().message;
}

void expect_prompts(std::string_view text, const std::vector<PromptParts>& expected) {
  const auto read = prompts_of(text);
  ASSERT_TRUE(read) << text << ": " << read.error().message;
  EXPECT_EQ(*read, expected) << text;
}

TEST(Prompts, ReadsEveryForm) {
  expect_prompts(R"("a")", {{"a"}});
  expect_prompts("[1,2,3]", {{Ids{1, 2, 3}}});
  expect_prompts(R"(["a",1,2,"b",3])", {{"a", Ids{1, 2}, "b", Ids{3}}});
  expect_prompts(R"([1,"a"])", {{Ids{1}, "a"}});
  expect_prompts(R"({"prompt_string":"a"})", {{"a"}});
  expect_prompts(R"(["a","b"])", {{"a"}, {"b"}});
  expect_prompts(R"(["a"])", {{"a"}});
  expect_prompts(R"([[1,2],"a",["b",3],{"prompt_string":"c"}])", {{Ids{1, 2}}, {"a"}, {"b", Ids{3}}, {"c"}});
  expect_prompts("[[1]]", {{Ids{1}}});
}

TEST(Prompts, RefusalsNameTheElement) {
  EXPECT_TRUE(refusal_of_prompts("5").starts_with("Field 'prompt': value 5, want a text, ids"));
  EXPECT_TRUE(refusal_of_prompts("null").starts_with("Field 'prompt': value null, want a text"));
  EXPECT_EQ(refusal_of_prompts("[]"), "Field 'prompt': an empty list, want at least one token");
  EXPECT_EQ(refusal_of_prompts("[[1],[]]"), "Field 'prompt[1]': an empty list, want at least one token");
  EXPECT_EQ(refusal_of_prompts("[1,null]"), "Field 'prompt[1]': value null, want a text or an id");
  EXPECT_EQ(refusal_of_prompts("[1,[2]]"), "Field 'prompt[1]': value a list of 1, want a text or an id");
  EXPECT_EQ(refusal_of_prompts("[[1],[2,true]]"), "Field 'prompt[1][1]': value true, want a text or an id");
  EXPECT_TRUE(refusal_of_prompts(R"(["a",true])").starts_with("Field 'prompt[1]': value true, want"));
  EXPECT_EQ(refusal_of_prompts("{}"), "Field 'prompt.prompt_string': absent, want a text");
  EXPECT_EQ(refusal_of_prompts(R"([{"prompt_string":5}])"), "Field 'prompt[0].prompt_string': value 5, want a text");
  EXPECT_EQ(refusal_of_prompts(R"({"prompt_string":"a","multimodal_data":["x"]})"),
            "Field 'prompt.multimodal_data': image and audio input is not supported");
}

TEST(Prompts, IdsAreThoseOfTheVocabulary) {
  const PromptLimits limits{.n_vocab = 10};
  EXPECT_TRUE(prompts_of("[0,9]", limits));
  EXPECT_EQ(refusal_of_prompts("[0,10]", limits), "Field 'prompt[1]': value 10, want 0 to 9");
  EXPECT_EQ(refusal_of_prompts("[[3],[0,-1]]", limits), "Field 'prompt[1][1]': value -1, want 0 to 9");
  EXPECT_EQ(refusal_of_prompts("[9223372036854775808]", limits),
            "Field 'prompt[0]': value 9223372036854775808, want an integer, 0 to 9");
  EXPECT_EQ(refusal_of_prompts("[1.5]", limits), "Field 'prompt[0]': value 1.5, want an integer, 0 to 9");
}

TEST(Prompts, TheirNumberIsBounded) {
  EXPECT_TRUE(prompts_of(R"(["a","b"])", {.max_prompts = 2}));
  EXPECT_EQ(refusal_of_prompts(R"(["a","b","c"])", {.max_prompts = 2}), "Field 'prompt': 3 prompts, want at most 2");
}

class PromptTokens : public ::testing::Test {
 protected:
  static text::VocabData vocab_data(bool add_bos = true, bool add_eos = false) {
    text::VocabData data = testing::small_vocab({{"a"}, {"b"}});  // 3, 4
    data.add_bos = add_bos;
    data.add_eos = add_eos;
    return data;
  }
  static FieldResult<Ids> tokens(const PromptParts& prompt, text::VocabData data = vocab_data()) {
    return tokenize_prompt(prompt, *testing::make_tokenizer(std::move(data)), "prompt[2]");
  }
};

TEST_F(PromptTokens, BosPrecedesAFirstTextOnly) {
  EXPECT_EQ(tokens({"ab"}), (Ids{1, 3, 4}));
  EXPECT_EQ(tokens({Ids{3}, "b"}), (Ids{3, 4}));
  EXPECT_EQ(tokens({"a", Ids{4, 4}, "b"}), (Ids{1, 3, 4, 4, 4}));
  EXPECT_EQ(tokens({"a"}, vocab_data(false)), Ids{3});
  EXPECT_EQ(tokens({""}), Ids{1});
}

TEST_F(PromptTokens, SpecialTokensSpelledOutAreParsed) {
  EXPECT_EQ(tokens({"a</s>", Ids{3}, "</s>b"}), (Ids{1, 3, 2, 3, 2, 4}));
}

TEST_F(PromptTokens, EosOfTheVocabularyDoesNotSplitAPrompt) {
  EXPECT_EQ(tokens({"a"}, vocab_data(true, true)), (Ids{1, 3, 2}));
  EXPECT_EQ(tokens({"a", Ids{4}}, vocab_data(true, true)), (Ids{1, 3, 4}));
}

TEST_F(PromptTokens, NoTokensAreRefused) {
  const auto none = tokens({""}, vocab_data(false));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "Field 'prompt[2]': no tokens, want at least one");
  EXPECT_EQ(none.error().param, "prompt[2]");
}

TEST_F(PromptTokens, IdsOutsideOfTheVocabularyAreRefused) {
  const auto wrong = tokens({Ids{3, 5}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "Field 'prompt[2]': token 5, want 0 to 4");
}

TEST_F(PromptTokens, TextWithoutAVocabularyIsNotSupported) {
  text::VocabData data;
  data.model = "no_vocab";
  data.n_tokens = 8;
  const auto refused = tokens({"a"}, data);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 501);
  EXPECT_EQ(refused.error().type, "not_supported_error");
  EXPECT_EQ(tokens({Ids{7}}, data), Ids{7});
}

}  // namespace
}  // namespace tessera::server
