#include "tessera/nn/experts.h"

namespace tessera::nn {

namespace {

Value scores_of(GraphBuilder& b, Value logits, Gating gating) {
  switch (gating) {
    case Gating::softmax:
      return b.soft_max(logits);
    case Gating::sigmoid:
      return b.sigmoid(logits);
    case Gating::softmax_of_chosen:
      break;
  }
  return logits;
}

// Scale and bias of each row's expert, on the product y.
Value finish(GraphBuilder& b, Value y, const ExpertLinear& layer, const ExpertRoutes& routes) {
  if (layer.scale != nullptr) {
    const Value scales = b.reshape(vector_f32(b, *layer.scale), {1, layer.scale->shape()[0]});
    y = b.mul(y, b.expert_rows(scales, routes));
  }
  return layer.bias == nullptr ? y : b.add(y, b.expert_rows(vector_f32(b, *layer.bias), routes));
}

}  // namespace

Routed route(GraphBuilder& b, Value x, const Router& router) {
  const Value logits = linear(b, x, {.weight = router.weight, .bias = router.bias});
  const Value scores = scores_of(b, logits, router.gating);
  const Value chosen_by =
      router.selection_bias == nullptr ? scores : b.add(scores, vector_f32(b, *router.selection_bias));
  const Value ids = b.top_k(chosen_by, router.n_used);
  const ExpertRoutes routes = b.expert_routes(ids, router.n_experts);
  if (router.gating != Gating::softmax_of_chosen)
    return {routes, b.expert_weights(scores, ids, {.normalize = router.normalize, .scale = router.scale})};
  // Their sum is 1: normalizing would change nothing.
  const Value weights = b.soft_max(b.expert_weights(scores, ids, {}));
  return {routes, router.scale == 1.0f ? weights : b.scale(weights, router.scale)};
}

Value swiglu_experts(GraphBuilder& b, Value x, const GatedExperts& experts) {
  const auto [routes, weights] = route(b, x, experts.router);
  const Value gate = b.mul_mat_experts(b.tensor(*experts.gate.weight), x, routes, ExpertInput::tokens);
  const Value up = b.mul_mat_experts(b.tensor(*experts.up.weight), x, routes, ExpertInput::tokens);
  const Value h = b.swiglu(finish(b, gate, experts.gate, routes), finish(b, up, experts.up, routes));
  const Value y = b.mul_mat_experts(b.tensor(*experts.down.weight), h, routes, ExpertInput::routed);
  return b.expert_sum(finish(b, y, experts.down, routes), weights, routes);
}

}  // namespace tessera::nn
