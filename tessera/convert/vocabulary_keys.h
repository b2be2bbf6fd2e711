// The vocabulary of a checkpoint as keys of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

/// Adds the keys of the tokenizer. Appends to `warnings` what a user should know of it. None is read yet, so the model
/// has no vocabulary.
Result<> add_vocabulary(const Checkpoint& checkpoint, const HubConfig& config, GgufBuilder& builder,
                        std::vector<std::string>& warnings);

}  // namespace tessera::convert
