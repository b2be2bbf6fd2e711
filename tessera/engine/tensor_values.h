// The values of a tensor as a file stores them, decoded by the formats' scalar truth. Called by inspect --dump; reads
// the file piece by piece, so memory does not grow with the tensor.
#pragma once

#include <span>

#include "tessera/base/function_ref.h"
#include "tessera/gguf/split.h"

namespace tessera {

/// Gives all values to `take` in the order of the file, innermost extent first, in pieces of at most 16384; stops at
/// the first error of take, which it returns. Errors: unsupported (a type without decoder).
Result<> read_values(const ModelFiles& files, const ModelFiles::Tensor& tensor,
                     FunctionRef<Result<>(std::span<const float>)> take);

}  // namespace tessera
