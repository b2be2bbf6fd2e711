// Vocabularies in plain files: vocab.json with merges.txt (byte-level BPE), and vocab.txt (WordPiece).
#pragma once

#include <optional>

#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"

namespace tessera::convert {

/// Nothing if the folder lacks one of the files. The pre-tokenizer is that of GPT-2, unless an option or the class of
/// the model names another one. Errors: format, limit; those of put_added_tokens().
Result<std::optional<VocabularyDraft>> read_vocab_and_merges(const TokenizerFolder& folder);

/// Nothing if the folder has no such file. Errors: format, limit; those of put_added_tokens().
Result<std::optional<VocabularyDraft>> read_vocab_txt(const TokenizerFolder& folder);

}  // namespace tessera::convert
