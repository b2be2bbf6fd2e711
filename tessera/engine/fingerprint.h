// The fingerprint of model files: what identifies a model or an adapter without reading all of its weights.
#pragma once

#include "tessera/base/hash.h"
#include "tessera/gguf/split.h"

namespace tessera {

/// Adds metadata, the list of tensors and samples of the weights.
void add_fingerprint(Hash64& hash, const ModelFiles& files);

}  // namespace tessera
