// Artificial SPM vocabularies with a few tokens, for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/text/tokenizer.h"
#include "tests/support/testing.h"

namespace tessera::testing {

struct SmallToken {
  std::string_view text;  // borrowed; a string literal
  float score = 0;
  text::TokenType type = text::TokenType::normal;
};

/// Ids 0, 1, 2 are <unk>, <s>, </s>; `tokens` follow from 3 on. There is no space prefix, so that ids are easy to read.
inline text::VocabData small_vocab(const std::vector<SmallToken>& tokens) {
  using enum text::TokenType;
  text::VocabData data;
  data.model = "llama";
  data.add_space_prefix = false;
  data.scores.emplace();
  data.types.emplace();
  std::vector<SmallToken> all{{"<unk>", 0, unknown}, {"<s>", 0, control}, {"</s>", 0, control}};
  all.insert(all.end(), tokens.begin(), tokens.end());
  for (const auto& [text, score, type] : all) {
    data.tokens.push_back(text);
    data.scores->push_back(score);
    data.types->push_back(static_cast<int32_t>(type));
  }
  return data;
}

/// Returns the tokenizer of this data. An error is a bug of the test and aborts it.
inline std::unique_ptr<const text::Tokenizer> make_tokenizer(text::VocabData data) {
  return text::Tokenizer::create(text::Vocab::create(std::move(data)).value()).value();
}

using Ids = std::vector<int32_t>;

/// Returns the token ids of a text. On an error, the test fails and the result is empty.
inline Ids ids(const text::VocabData& data, std::string_view text, text::TokenizeOptions options = {}) {
  const auto tokens = make_tokenizer(data)->tokenize(text, options);
  EXPECT_OK(tokens);
  return tokens.value_or(Ids{});
}

}  // namespace tessera::testing
