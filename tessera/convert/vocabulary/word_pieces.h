// WordPiece vocabularies of BERT, as GGUF files spell them.
#pragma once

#include <optional>
#include <string>

#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"

namespace tessera::convert {

struct WordPieceRules {
  std::string continuation = "##";  // in front of pieces that continue a word
  std::optional<bool> lowercase{}, strip_accents{};
};

/// Marks the known special tokens, such as [CLS], as control tokens, gives pieces that begin a word U+2581 and takes
/// the sign of a continuation from others. Sets the model and its flags. Accents are stripped like case is unless the
/// rules say otherwise.
void set_word_piece_rules(const TokenizerFolder& folder, const WordPieceRules& rules, VocabularyDraft& draft);

}  // namespace tessera::convert
