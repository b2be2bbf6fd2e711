// Linear layers and norms. Weights may be absent.
#pragma once

#include "tessera/graph/builder.h"

namespace tessera::nn {

/// Operand of a layer's scale. In GGUF files it is the product in attention, and product plus bias in feed-forward
/// blocks.
enum class ScaleOf : uint8_t { product, sum };

/// y = scale * (weight x) + bias, or scale * (weight x + bias); weight [n_in, n_out], bias [n_out] or null,
/// scale [1] or null.
struct Linear {
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* scale = nullptr;
  ScaleOf scale_of = ScaleOf::product;
};

/// A weight vector as f32, converted if the file has another type.
Value vector_f32(GraphBuilder& b, const Tensor& weight);

Value linear(GraphBuilder& b, Value x, const Linear& layer);

/// Applies scale and bias to the product y of a layer. For products that must be consecutive before that.
Value finish_linear(GraphBuilder& b, Value y, const Linear& layer);

/// RMS norm with a weight vector [n].
Value rms_norm(GraphBuilder& b, Value x, const Tensor& weight, float eps);

}  // namespace tessera::nn
