// Forms of the tensors of Mamba 2 that several classes of models share.
#pragma once

#include "tessera/convert/checkpoints/tensor_rules.h"

namespace tessera::convert {

/// [n] as [n, 1].
Result<TensorPieces> as_column(const StoredTensor& tensor, const RuleFacts& facts);
/// The weights of a convolution, [n, 1, k], as [n, k]. Errors: mismatch (another shape).
Result<TensorPieces> without_middle(const StoredTensor& tensor, const RuleFacts& facts);
/// [n] as [groups, n / groups], by n_groups or mamba_n_groups of the config. Errors: mismatch.
Result<TensorPieces> in_groups(const StoredTensor& tensor, const RuleFacts& facts);

}  // namespace tessera::convert
