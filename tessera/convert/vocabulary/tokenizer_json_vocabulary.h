// tokenizer.json, the file of the library tokenizers: BPE of bytes or with byte fallback, unigram models and WordPiece.
#pragma once

#include <optional>

#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"
#include "tessera/json/json.h"

namespace tessera::convert {

/// The vocabulary of a tokenizer.json. Errors: format (members of other types; two tokens of one id; a merge of texts
/// that are no tokens); limit; unsupported (another model, or BPE neither of bytes nor with byte fallback; an unknown
/// pre-tokenizer).
Result<VocabularyDraft> tokenizer_json_draft(const Json& json, const TokenizerFolder& folder);

/// Nothing if the folder has no such file. Errors: those of tokenizer_json_draft(), with the path.
Result<std::optional<VocabularyDraft>> read_tokenizer_json(const TokenizerFolder& folder);

}  // namespace tessera::convert
