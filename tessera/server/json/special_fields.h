// Readers of the generation fields that are more than a number, a flag or a text. Each belongs to a row
// TESSERA_SPECIAL_FIELD of fields.def. Dialects call them for fields with other names (stop_sequences).
#pragma once

#include "tessera/server/json/generation_fields.h"

namespace tessera::server {

#define TESSERA_SPECIAL_FIELD(shown, member, name, wants, aliases, dialects, help)                      \
  FieldResult<> read_##member(const Json& value, const FieldPath& path, const GenerationLimits& limits, \
                              GenerationFields& fields);
#include "tessera/server/json/fields.def"

/// A list of {"id", "scale"}, by ascending id; without a scale 0. Errors: 400 for an id that the server does not have,
/// or that the list has twice.
FieldResult<std::vector<LoraScale>> read_lora_scales(const Json& value, const FieldPath& path,
                                                     const GenerationLimits& limits);

}  // namespace tessera::server
