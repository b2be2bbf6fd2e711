// A vocabulary as masks of grammars need it, and what they have found out about it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/code_point_set.h"
#include "tessera/text/grammar/lexeme_tokens.h"
#include "tessera/text/grammar/vocab_tree.h"
#include "tessera/text/tokenizer.h"

namespace tessera::text::grammar {

/// Does not change but for its cache, so any number of threads may share it.
class MaskVocab {
 public:
  static constexpr size_t kMaxCacheBytes = size_t{64} << 20;

  struct Token {
    std::string text{};      // the bytes that the token adds to a text; empty for control tokens
    bool ends_text = false;  // the token ends a generation; its text does not count
  };

  /// Token i has the id i.
  explicit MaskVocab(std::vector<Token> tokens);
  /// The tokens of a model that has n_tokens of them, perhaps more than the vocabulary.
  static std::shared_ptr<const MaskVocab> create(const Tokenizer& tokenizer, size_t n_tokens);

  size_t n_tokens() const { return tokens_.size(); }
  bool contains(int64_t id) const { return id >= 0 && static_cast<uint64_t>(id) < tokens_.size(); }
  const Token& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  std::span<const int32_t> end_tokens() const { return end_tokens_; }
  /// All other tokens with a text. Without a token for each byte, only those that begin and end between characters.
  const VocabTree& tree() const { return tree_; }
  /// Nothing if each byte of UTF-8 is a token. Otherwise the characters that are tokens.
  const std::optional<CodePointSet>& characters() const { return characters_; }
  LexemeTokensCache& cache() const { return cache_; }

 private:
  std::vector<Token> tokens_;
  std::vector<int32_t> end_tokens_;
  std::optional<CodePointSet> characters_;
  VocabTree tree_;
  mutable LexemeTokensCache cache_{kMaxCacheBytes};
};

/// The tokens of a text that follows another one; none if a token would join the two. Errors: those of
/// Tokenizer::tokenize().
Result<std::vector<int32_t>> tokens_after(const Tokenizer& tokenizer, const MaskVocab& vocab, std::string_view before,
                                          std::string_view text);

}  // namespace tessera::text::grammar
