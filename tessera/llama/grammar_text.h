// A grammar of a program and its triggers, for samplers and for the functions of addon_symbols.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/llama/boundary.h"
#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/mask_vocab.h"

namespace tessera::llama {

using GrammarPointer = std::shared_ptr<const text::grammar::Grammar>;

/// Compiles GBNF whose texts the vocabulary can write. Without a vocabulary any text is allowed. Errors: format, with
/// line and column; unsupported.
Result<GrammarPointer> compile_grammar(const llama_vocab* vocab, const char* source, const char* root);

/// A regular expression that starts a lazy grammar. The grammar's text begins with what the first group matches, or
/// with the whole match where there is no group.
class TriggerPattern {
 public:
  /// Errors: format (no regular expression, or one that a grammar cannot be made of).
  static Result<TriggerPattern> from_regex(std::string_view pattern);
  static Result<TriggerPattern> from_word(std::string_view word);

  /// The place where the text of the grammar begins, once the pattern has been found.
  std::optional<size_t> find(std::string_view text) const;

 private:
  std::optional<size_t> find_group(std::string_view text) const;
  bool fits_rest(std::string_view rest) const;

  bool matches_whole_ = false;  // the pattern is anchored at both ends
  GrammarPointer before_;       // any text, if it is not anchored, and the part in front of the first group; null: none
  GrammarPointer from_;         // the rest
  std::string word_;            // instead of all these
};

}  // namespace tessera::llama
