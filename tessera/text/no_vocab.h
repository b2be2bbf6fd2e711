// The tokenizer of a model that has token ids but no vocabulary: a row in tokenizer.cpp's table.
#pragma once

#include <memory>

#include "tessera/text/tokenizer.h"

namespace tessera::text {

/// Tokenizing any text except "" fails with an explanation. Pieces of tokens are empty.
Result<std::unique_ptr<const Tokenizer>> make_no_vocab_tokenizer(std::shared_ptr<const Vocab> vocab);

}  // namespace tessera::text
