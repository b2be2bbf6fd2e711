// The SentencePiece tokenizer of `llama` vocabularies: a row in tokenizer.cpp's table.
#pragma once

#include <memory>

#include "tessera/text/tokenizer.h"

namespace tessera::text {

/// Needs vocab->has_text().
Result<std::unique_ptr<const Tokenizer>> make_spm_tokenizer(std::shared_ptr<const Vocab> vocab);

}  // namespace tessera::text
