// Grammars for vocabularies that cannot write every text.
#pragma once

#include <memory>

#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/mask_vocab.h"

namespace tessera::text::grammar {

/// The texts of a grammar whose characters are tokens of the vocabulary, so that each text that is begun can be ended.
/// Returns the grammar itself if the vocabulary has a token for each byte. Errors: no text is left.
GrammarResult spelled_by(const MaskVocab& vocab, std::shared_ptr<const Grammar> grammar);

}  // namespace tessera::text::grammar
