// The vocabulary of a model as the keys of a GGUF file hold it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/gguf/writer.h"
#include "tessera/text/vocab.h"

namespace tessera::convert {

struct NamedTemplate {
  std::string name{}, source{};
};

struct Vocabulary {
  std::string model{};  // tokenizer.ggml.model
  std::string pre{};    // tokenizer.ggml.pre; empty: no key
  std::vector<std::string> tokens{};
  std::vector<float> scores{};           // one per token, or none
  std::vector<text::TokenType> types{};  // one per token
  std::vector<std::string> merges{};
  std::array<std::optional<uint32_t>, text::kNSpecialTokens> special_ids{};  // by text::SpecialToken
  std::optional<bool> add_bos{}, add_eos{}, add_sep{}, add_space_prefix{}, remove_extra_whitespaces{};
  std::optional<bool> lowercase{}, strip_accents{};
  std::vector<uint8_t> charsmap{};
  std::optional<uint32_t> token_type_count{};
  std::string chat_template{};  // empty: none
  std::vector<NamedTemplate> named_templates{};
};

/// Checks that a GGUF file with this vocabulary can be loaded. Errors: those of text::Vocab::create().
Result<> check_vocabulary(const Vocabulary& vocabulary);

/// Sets the keys tokenizer.*. Error: mismatch (other numbers of types or scores than of tokens).
Result<> add_vocabulary(const Vocabulary& vocabulary, GgufBuilder& builder);

}  // namespace tessera::convert
