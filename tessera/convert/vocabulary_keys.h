// The vocabulary of a checkpoint as keys of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/convert/vocabulary/read_vocabulary.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

/// The place of a vocabulary, and choices about it.
struct VocabularySource {
  std::string folder{};  // "": that of the checkpoint
  VocabularyOptions options{};
};

/// Adds the keys of the tokenizer. A checkpoint without one becomes a model without a vocabulary, and a warning.
/// Appends to `warnings` what a user should know. Errors: those of read_vocabulary().
Result<> add_vocabulary(const Checkpoint& checkpoint, const HubConfig& config, const VocabularySource& source,
                        GgufBuilder& builder, std::vector<std::string>& warnings);

}  // namespace tessera::convert
