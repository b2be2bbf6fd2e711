// Whether a device can use a weight: asked with a graph of the one operation that reads it.
#pragma once

#include "tessera/backend/backend.h"

namespace tessera {

/// Whether a device can run `use` with this weight in memory of weight.buffer_type. True for operations other than
/// products and get_rows.
bool can_use_weight(const Device& device, Op use, const Tensor& weight);
/// The same for a matrix of a type, in the memory that the device prefers for it.
bool can_use_type(const Device& device, Op use, DType dtype);

}  // namespace tessera
