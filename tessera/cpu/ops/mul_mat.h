// Which kernel multiplies a matrix: asked when a graph is compiled and when a product runs.
#pragma once

#include "tessera/backend/backend.h"
#include "tessera/cpu/kernels/kernels.h"

namespace tessera::cpu {

/// How a product with weights of some dtype runs.
struct ProductForm {
  const PanelFormat& format;  // whose kernel multiplies
  int64_t max_group;          // of the packed x

  /// Whether the two can share the packed x.
  bool packs_as(const ProductForm& other) const {
    return format.pack_activations == other.format.pack_activations && max_group == other.max_group;
  }
};

/// For a dtype that has panels: its own format, or f32's where it would quantize x and x is to be read as floats.
ProductForm product_form(const Kernels& kernels, DType dtype, Activations activations);

}  // namespace tessera::cpu
