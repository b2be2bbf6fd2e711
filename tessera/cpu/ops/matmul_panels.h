// Products of weight panels and packed activations, for weights in any memory. Weights in packed memory are used in
// place. Other weights are packed panel by panel into scratch memory, with the same kernels and so the same bits. To
// multiply quantized weights by float activations, panels are converted to f32 panels in scratch memory. That is slow:
// it serves to measure the error of quantizing x. Used by mul_mat and mul_mat_experts.
#pragma once

#include "tessera/base/partition.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

/// The kernel and the packing of x for products with weights of some dtype.
struct ProductForm {
  const PanelFormat& format;  // provides the kernel
  int64_t max_group;          // ActivationShape::max_group of the packed x
  bool is_widened = false;    // multiplies f32 panels, made from the dtype's own panels

  /// Whether both forms can share the packed x.
  bool packs_as(const ProductForm& other) const {
    return format.pack_activations == other.format.pack_activations && max_group == other.max_group;
  }
};

/// Returns the form for a dtype that has panels. float32: its own format, or that of f32 if its own would quantize x.
/// Otherwise its products in 16-bit integers, or its own format if it has none.
ProductForm product_form(const Kernels& kernels, DType dtype, ActivationPrecision activations);

/// The packed activations of one product.
struct PackedX {
  ActivationShape shape;
  const std::byte* packed;
};

/// Provides the matrices of one operand as panels to multiply.
class Panels {
 public:
  Panels(const Kernels& kernels, const Operand& weights, ActivationPrecision activations);

  /// Bytes of scratch memory that a thread needs for multiply().
  size_t scratch_bytes() const;

  /// out[t][row] for the rows of panels [begin, end) of matrix `index` (0 unless weights have three dimensions) and all
  /// tokens of x; token t's row 0 is out_stride * t bytes after `out`.
  void multiply(int64_t index, int64_t begin, int64_t end, const PackedX& x, float* out, size_t out_stride,
                std::byte* scratch) const;

  int64_t n_panels() const;

 private:
  size_t multiplied_bytes() const;
  void make_panel(int64_t index, int64_t panel, std::byte* multiplied, std::byte* stored) const;
  void pack_panel(int64_t index, int64_t panel, std::byte* packed) const;
  std::byte* stored_panel(int64_t index, int64_t panel) const;

  const Operand& weights_;
  const PanelFormat& stored_;
  const PanelFormat& multiplied_;
  bool is_widened_;
};

/// Bytes of scratch memory that a thread needs to multiply the panels of any product of a step.
size_t panel_scratch_bytes(const Kernels& kernels, const Step& step);

/// Returns the number of panels per unit of work: few enough to balance the threads and to react to a cancellation
/// soon, enough to stream memory.
int64_t panels_per_chunk(int64_t n_panels, int n_threads, int64_t k, int64_t n_tokens);

}  // namespace tessera::cpu
