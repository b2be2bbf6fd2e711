// Which kernel multiplies a matrix: asked when a graph is compiled and when a product runs.
#pragma once

#include "tessera/backend/backend.h"
#include "tessera/cpu/kernels/kernels.h"

namespace tessera::cpu {

/// The format whose kernel multiplies weights of a dtype that has panels: its own, or f32's where it would quantize x
/// and x is to be read as floats. Products whose formats pack x by the same function can share the packed x.
const PanelFormat& product_format(const Kernels& kernels, DType dtype, Activations activations);

}  // namespace tessera::cpu
