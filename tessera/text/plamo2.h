// The tokenizer of PLaMo 2 and 3: a row in tokenizer.cpp's table.
#pragma once

#include <memory>

#include "tessera/text/tokenizer.h"

namespace tessera::text {

/// Needs vocab->has_text(). Errors: format if a byte token is missing; those of TokenTrie::create().
Result<std::unique_ptr<const Tokenizer>> make_plamo2_tokenizer(std::shared_ptr<const Vocab> vocab);

}  // namespace tessera::text
