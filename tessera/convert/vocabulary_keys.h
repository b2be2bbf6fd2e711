// The vocabulary of a checkpoint as keys of a GGUF file.
#pragma once

#include "tessera/base/result.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

/// Adds the keys of the tokenizer. None is read yet, so the model has no vocabulary.
Result<> add_vocabulary(const Checkpoint& checkpoint, const HubConfig& config, GgufBuilder& builder);

}  // namespace tessera::convert
