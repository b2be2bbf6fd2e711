#include "tessera/backend/weight_support.h"

#include "tessera/graph/builder.h"

namespace tessera {

bool can_use_weight(const Device& device, Op use, const Tensor& weight) {
  const Shape& shape = weight.shape();
  constexpr int64_t kTokens = 64;  // accelerators may support large products only
  GraphBuilder b;
  const Value w = b.tensor(weight);
  if (use == Op::mul_mat && shape[2] == 1) {
    b.mul_mat(w, b.input("x", DType::f32, {shape[0], kTokens}));
  } else if (use == Op::mul_mat_heads) {
    b.mul_mat_heads(w, b.input("x", DType::f32, {shape[0], shape[2], kTokens}));
  } else if (use == Op::mul_mat_experts) {
    const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {1, kTokens}), shape[2]);
    b.mul_mat_experts(w, b.input("x", DType::f32, {shape[0], kTokens}), routes, ExpertInput::tokens);
  } else if (use == Op::get_rows) {
    b.get_rows(w, b.input("ids", DType::i32, {kTokens}));
  } else {
    return true;
  }
  const auto graph = std::move(b).finish();
  return graph && device.supports(*graph, graph->size() - 1);
}

bool can_use_type(const Device& device, Op use, DType dtype) {
  constexpr int64_t kRow = 256;  // whole blocks of every type
  const auto layout = contiguous_layout(dtype, {kRow, kRow});
  return layout && can_use_weight(device, use,
                                  {{dtype, *layout}, "weight", &device.weight_buffer_type(use, dtype, layout->shape)});
}

}  // namespace tessera
