// Grammars of programs, for samplers and for the functions of addon_symbols.h.
#pragma once

#include <memory>

#include "tessera/llama/boundary.h"
#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/mask_vocab.h"

namespace tessera::llama {

using GrammarPointer = std::shared_ptr<const text::grammar::Grammar>;

/// Compiles GBNF whose texts the vocabulary can write. Without a vocabulary any text is allowed. Errors: format, with
/// line and column; unsupported.
Result<GrammarPointer> compile_grammar(const llama_vocab* vocab, const char* source, const char* root);

}  // namespace tessera::llama
