// Tokens by their ids, as the readers of vocabularies find them: in any order, and with holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/vocab.h"

namespace tessera::convert {

/// The largest known vocabulary has 901,629 tokens.
inline constexpr size_t kMaxVocabularyTokens = size_t{1} << 20;

/// The score of ids without token, in vocabularies with scores.
inline constexpr float kPaddingScore = -10000.0f;

struct VocabularyToken {
  std::string text{};
  float score = 0;
  text::TokenType type = text::TokenType::undefined;  // undefined: the id has no token
};

class TokenTable {
 public:
  /// Adds a token. Errors: format (a negative id; another token has the id); limit (an id of kMaxVocabularyTokens or
  /// more).
  Result<> add(int64_t id, VocabularyToken token);
  /// Adds a token, or replaces the one that has the id. Errors: those of add() otherwise.
  Result<> put(int64_t id, VocabularyToken token);

  /// Null if no token has the id.
  const VocabularyToken* find(int64_t id) const;

  /// One more than the largest id.
  size_t n_ids() const { return tokens_.size(); }

  /// Drops the tokens from an id on.
  void cut(size_t n_ids);
  /// Gives all ids below n_ids, and below the largest one, a token: [PADi], unused. Error: limit.
  Result<> fill(size_t n_ids, float score);

  std::vector<VocabularyToken>& all() { return tokens_; }
  const std::vector<VocabularyToken>& all() const { return tokens_; }

 private:
  Result<> make_room(int64_t id, const std::string& text);

  std::vector<VocabularyToken> tokens_;
};

}  // namespace tessera::convert
