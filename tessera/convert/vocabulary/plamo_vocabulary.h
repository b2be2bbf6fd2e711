// tokenizer.jsonl of PLaMo 2 and 3. A line is a list: the text of a token, its score, its type. The number of the line
// is the id.
#pragma once

#include <optional>

#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"

namespace tessera::convert {

/// Nothing if the folder has no such file. Errors: format (a line of another form, a score outside of float, a
/// byte without a token); those of reading JSON and of TokenTable::add().
Result<std::optional<VocabularyDraft>> read_plamo(const TokenizerFolder& folder);

}  // namespace tessera::convert
