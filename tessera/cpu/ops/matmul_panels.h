// Products of weight panels by packed activations, wherever the weights lie: in packed memory they are used as they
// lie; others are packed panel by panel into scratch memory, with the same kernels and so the same bits. Where
// quantized weights are to be multiplied by floats, their panels become f32 panels in scratch memory: a way to measure
// what quantizing x costs, not a fast one. Used by mul_mat and mul_mat_experts.
#pragma once

#include "tessera/base/partition.h"
#include "tessera/cpu/step.h"

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

/// The activations of one product: packed, and what of them is multiplied.
struct PackedX {
  ActivationShape shape;
  const std::byte* packed;
};

/// How the matrices of one operand become the panels that are multiplied.
class Panels {
 public:
  Panels(const Kernels& kernels, const Operand& weights, Activations activations);

  /// What a thread needs to multiply.
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

/// What a thread needs to multiply the panels of any product of a step.
size_t panel_scratch_bytes(const Kernels& kernels, const Step& step);

/// Panels of one unit of work, of n_panels that threads share out: few enough to balance threads and to notice a
/// cancellation soon, enough to stream memory.
int64_t panels_per_chunk(int64_t n_panels, int n_threads, int64_t k, int64_t n_tokens);

}  // namespace tessera::cpu
