// Whether a device can use a weight: asked with a graph of the one operation that reads it.
#pragma once

#include "tessera/backend/backend.h"

namespace tessera {

/// Whether a device can run `use` (a product, or get_rows) with this weight in memory of tensor.buffer_type. Every
/// other operation is taken to be supported.
bool can_use_weight(const Device& device, Op use, const Tensor& weight);
/// The same for a matrix of a type, in the device's preferred memory for it.
bool can_use_type(const Device& device, Op use, DType dtype);

}  // namespace tessera
