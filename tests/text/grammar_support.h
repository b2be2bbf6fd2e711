// Shared by the tests and the fuzzers of grammars.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/mask_vocab.h"
#include "tessera/text/grammar/token_row.h"

namespace tessera::testing {

inline std::string error_of(const text::grammar::GrammarResult& grammar) {
  return grammar ? "no error" : grammar.error().text();
}

/// A text n times.
inline std::string repeated(std::string_view text, size_t n) {
  std::string all;
  all.reserve(text.size() * n);
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

/// A vocabulary: 0 ends a text, 1 is a control token, then all bytes, then the given texts.
inline std::shared_ptr<const text::grammar::MaskVocab> vocab_of(const std::set<std::string>& texts) {
  std::vector<text::grammar::MaskVocab::Token> tokens = {{.text = "</s>", .ends_text = true}, {}};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte))});
  for (const std::string& text : texts) tokens.push_back({text});
  return std::make_shared<const text::grammar::MaskVocab>(std::move(tokens));
}

inline std::vector<int32_t> ids_of(const text::grammar::TokenRow& row) {
  std::vector<uint64_t> words(row.n_words());
  row.write(words);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < words.size() * 64; ++i)
    if (((words[i / 64] >> (i % 64)) & 1) != 0) ids.push_back(static_cast<int32_t>(i));
  return ids;
}

}  // namespace tessera::testing
