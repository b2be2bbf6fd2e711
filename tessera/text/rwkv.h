// RWKV's "world" tokenizer: a row in tokenizer.cpp's table.
#pragma once

#include <memory>

#include "tessera/text/tokenizer.h"

namespace tessera::text {

/// Needs vocab->has_text(). Errors: as TokenTrie::create(); limit for too much text.
Result<std::unique_ptr<const Tokenizer>> make_rwkv_tokenizer(std::shared_ptr<const Vocab> vocab);

}  // namespace tessera::text
