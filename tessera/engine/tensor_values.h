// Decodes the values of a tensor of a file with the formats' reference implementation. Called by inspect --dump. Reads
// the file piece by piece, so memory does not grow with the tensor.
#pragma once

#include <span>

#include "tessera/base/function_ref.h"
#include "tessera/gguf/split.h"

namespace tessera {

/// Calls `take` with all values in the order of the file, innermost extent first, in pieces of at most 16384 values.
/// Errors: unsupported (a type without decoder); the first error of `take`, which ends the call.
Result<> read_values(const ModelFiles& files, const ModelFiles::Tensor& tensor,
                     FunctionRef<Result<>(std::span<const float>)> take);

}  // namespace tessera
