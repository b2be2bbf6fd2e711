#include "tessera/nn/linear.h"

namespace tessera::nn {

Value vector_f32(GraphBuilder& b, const Tensor& weight) {
  const Value value = b.tensor(weight);
  return weight.dtype == DType::f32 ? value : b.cast(value, DType::f32);
}

Value finish_linear(GraphBuilder& b, Value y, const Linear& layer) {
  const auto scaled = [&] { return layer.scale == nullptr ? y : b.mul(y, vector_f32(b, *layer.scale)); };
  if (layer.scale_of == ScaleOf::product) y = scaled();
  if (layer.bias != nullptr) y = b.add(y, vector_f32(b, *layer.bias));
  return layer.scale_of == ScaleOf::sum ? scaled() : y;
}

Value linear(GraphBuilder& b, Value x, const Linear& layer) {
  return finish_linear(b, b.mul_mat(b.tensor(*layer.weight), x), layer);
}

Value rms_norm(GraphBuilder& b, Value x, const Tensor& weight, float eps) {
  return b.rms_norm(x, vector_f32(b, weight), eps);
}

}  // namespace tessera::nn
