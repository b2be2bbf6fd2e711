// The general.* keys of a converted model.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/convert/checkpoints/tensor_rules.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

/// Adds architecture, type and name (the folder's or its repository's, or that of the card), the sampling settings of
/// generation_config.json, and of the card, README.md: license, tags, languages, base models and data sets.
/// Errors: format (a setting of another type); those of reading JSON.
Result<> add_general_keys(const Checkpoint& checkpoint, std::string_view architecture, GgufBuilder& builder);

/// The number of parameters as names of models have it: "1.2B", or "8x7.2B" with experts, where the second number is
/// what is shared and one expert of each layer.
std::string size_label(std::span<const ConvertedTensor> tensors);

}  // namespace tessera::convert
