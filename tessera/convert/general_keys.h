// The general.* keys of a converted model.
#pragma once

#include <string_view>

#include "tessera/base/result.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

/// Adds architecture, type and name (the folder's), and the sampling settings of generation_config.json.
/// Errors: format (a setting of another type); those of reading JSON.
Result<> add_general_keys(const Checkpoint& checkpoint, std::string_view architecture, GgufBuilder& builder);

}  // namespace tessera::convert
