// Tokens that were added to a vocabulary after its training.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/vocabulary/token_table.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"

namespace tessera::convert {

/// The score of added tokens in vocabularies with scores.
inline constexpr float kAddedScore = -1000.0f;

struct AddedToken {
  int64_t id = 0;
  std::string text{};
  bool is_special = false;
};

/// Whether a text has the form of special tokens: <|name|>, <unused9> and a few names. Files do not always mark these.
bool looks_special(std::string_view text);

/// A control token, or a user-defined one with spaces instead of U+2581.
VocabularyToken to_vocabulary_token(const AddedToken& token, float score);

/// A member of added_tokens or added_tokens_decoder: content and special. Error: format.
Result<AddedToken> parse_added_token(const Json& json, int64_t id);

/// added_tokens_decoder of tokenizer_config.json. Errors: format (an id that is no number, a token without content).
Result<std::vector<AddedToken>> added_tokens_of_settings(const TokenizerFolder& folder);

/// Puts the tokens of added_tokens.json and then those of tokenizer_config.json into the table, where they replace
/// others. Errors: format; those of TokenTable::put().
Result<> put_added_tokens(const TokenizerFolder& folder, TokenTable& tokens);

/// Normal tokens that tokenizer_config.json names become control tokens.
void mark_named_tokens(const TokenizerFolder& folder, TokenTable& tokens);

}  // namespace tessera::convert
