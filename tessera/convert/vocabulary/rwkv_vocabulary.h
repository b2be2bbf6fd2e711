// RWKV's rwkv_vocab_*.txt. A line is an id, a literal of Python ('text' or b'bytes') and its length in bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"

namespace tessera::convert {

/// The bytes of a literal of Python, as repr() writes them. Error: format.
Result<std::string> parse_python_literal(std::string_view literal);
/// The bytes as repr() of Python writes them, without the b and the quotes.
std::string python_repr(std::string_view bytes);

/// Nothing if the folder has no such file. Errors: format (a line of another form, a wrong length, an id twice); limit.
Result<std::optional<VocabularyDraft>> read_rwkv(const TokenizerFolder& folder);

}  // namespace tessera::convert
