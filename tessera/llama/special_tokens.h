// Special tokens that a file does not name. llama.h finds them by their texts.
#pragma once

#include <optional>

#include "tessera/text/vocab.h"

namespace tessera::llama {

/// The token that the file names for a role, else one whose text is known for it.
std::optional<int32_t> find_special(const text::Vocab& vocab, text::SpecialToken which);
/// Whether a token ends a generation. Those between the files of a repository do as well.
bool ends_generation(const text::Vocab& vocab, int32_t token);

}  // namespace tessera::llama
