// WordPiece (Schuster and Nakajima 2012) as BERT uses it (Devlin et al. 2018): a row in tokenizer.cpp's table.
#pragma once

#include <memory>

#include "tessera/text/tokenizer.h"

namespace tessera::text {

/// Needs vocab->has_text(). Errors: as TokenTrie::create().
Result<std::unique_ptr<const Tokenizer>> make_wpm_tokenizer(std::shared_ptr<const Vocab> vocab);

}  // namespace tessera::text
