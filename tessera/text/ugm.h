// SentencePiece's unigram model (Kudo 2018): a row in tokenizer.cpp's table.
#pragma once

#include <memory>

#include "tessera/text/tokenizer.h"

namespace tessera::text {

/// Needs vocab->has_text(). Errors: as Charsmap::create() and TokenTrie::create().
Result<std::unique_ptr<const Tokenizer>> make_ugm_tokenizer(std::shared_ptr<const Vocab> vocab);

}  // namespace tessera::text
