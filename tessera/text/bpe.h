// Byte-pair encoding (Sennrich et al. 2016; over bytes: Radford et al. 2019): rows in tokenizer.cpp's table.
#pragma once

#include <memory>

#include "tessera/text/tokenizer.h"

namespace tessera::text {

/// Errors: format for a merge that is not two symbols with a space between them.
Result<std::unique_ptr<const Tokenizer>> make_bpe_tokenizer(std::shared_ptr<const Vocab> vocab);

}  // namespace tessera::text
