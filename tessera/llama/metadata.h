// The metadata of a file as llama.h lists it: as texts, without arrays.
#pragma once

#include <string>

#include "tessera/gguf/metadata.h"

namespace tessera::llama {

int32_t count_entries(const Metadata& metadata);
/// The entry at a place of the list. Error: invalid_argument (no such place).
Result<const Metadata::Entry*> entry_at(const Metadata& metadata, int32_t i);
/// The entry of a key. Error: not_found.
Result<const Metadata::Entry*> entry_of(const Metadata& metadata, std::string_view key);
/// "llama", "8", "0.000010" or "true"; not for arrays.
std::string value_text(const GgufValue& value);

}  // namespace tessera::llama
