// How the embeddings of tokens become that of a text, as files of the sentence-transformers library say.
#pragma once

#include "tessera/base/result.h"
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

/// Sets the key of pooling that modules.json names, if it names one. Errors: format; unsupported (another kind).
Result<> add_pooling(ModelDraft& draft);

/// Adds the two linear layers after pooling that modules.json may name, dense_2 and dense_3. Errors: format;
/// unsupported (another number of layers, biases, or activations); those of Checkpoint::open().
Result<> add_dense_layers(ModelDraft& draft);

}  // namespace tessera::convert
