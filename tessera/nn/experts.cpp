#include "tessera/nn/experts.h"

namespace tessera::nn {

namespace {

Value scores_of(GraphBuilder& b, Value logits, Gating gating) {
  switch (gating) {
    case Gating::softmax:
      return b.soft_max(logits);
    case Gating::sigmoid:
      return b.sigmoid(logits);
    case Gating::sqrt_softplus:
      return b.sqrt(b.softplus(logits));
    case Gating::softmax_of_chosen:
      break;
  }
  return logits;
}

// Applies scale and bias of each row's expert to the product y.
Value finish(GraphBuilder& b, Value y, const ExpertLinear& layer, const ExpertRoutes& routes) {
  if (layer.scale != nullptr) {
    const Value scales = b.reshape(vector_f32(b, *layer.scale), {1, layer.scale->shape()[0]});
    y = b.mul(y, b.expert_rows(scales, routes));
  }
  return layer.bias == nullptr ? y : b.add(y, b.expert_rows(vector_f32(b, *layer.bias), routes));
}

Value hidden(GraphBuilder& b, Value x, const Experts& e, const ExpertRoutes& routes, ExpertInput input) {
  const auto product = [&](const ExpertLinear& layer) {
    return b.mul_mat_experts(b.tensor(*layer.weight), x, routes, input);
  };
  if (e.gate_up.weight != nullptr) {
    const auto [gate, up] = halves(b, finish(b, product(e.gate_up), e.gate_up, routes));
    return activate(b, gate, up, e.activation, e.limit, e.limits_gate_input);
  }
  if (e.gate.weight == nullptr) return activate(b, finish(b, product(e.up), e.up, routes), e.activation);
  // The two products are consecutive, so that a backend packs or quantizes x once for both.
  const Value gate = product(e.gate), up = product(e.up);
  return activate(b, finish(b, gate, e.gate, routes), finish(b, up, e.up, routes), e.activation, e.limit,
                  e.limits_gate_input);
}

}  // namespace

Value router_scores(GraphBuilder& b, Value x, const Router& router) {
  return scores_of(b, linear(b, x, {.weight = router.weight, .bias = router.bias}), router.gating);
}

Routed route(GraphBuilder& b, Value x, const Router& router) {
  return route_by_scores(b, router_scores(b, x, router), router);
}

Routed route_by_scores(GraphBuilder& b, Value scores, const Router& router) {
  Value chosen_by = router.selection_bias == nullptr ? scores : b.add(scores, vector_f32(b, *router.selection_bias));
  if (router.n_groups_used < router.n_groups)
    chosen_by = b.top_groups(chosen_by, {.n_groups = router.n_groups, .n_used = router.n_groups_used});
  const Value ids = b.top_k(chosen_by, router.n_used);
  const ExpertRoutes routes = b.expert_routes(ids, router.n_experts);
  if (router.gating != Gating::softmax_of_chosen)
    return {routes, b.expert_weights(scores, ids, {.normalize = router.normalize, .scale = router.scale})};
  // The softmax sums to 1, so normalizing would not change it.
  const Value weights = b.soft_max(b.expert_weights(scores, ids, {}));
  return {routes, router.scale == 1.0f ? weights : b.scale(weights, router.scale)};
}

Value experts(GraphBuilder& b, Value x, const Experts& e) { return experts(b, x, e, route(b, x, e.router)); }

Value experts(GraphBuilder& b, Value x, const Experts& e, const Routed& routed, ExpertInput input) {
  const auto& [routes, weights] = routed;
  const Value h = hidden(b, x, e, routes, input);
  const Value y = b.mul_mat_experts(b.tensor(*e.down.weight), h, routes, ExpertInput::routed);
  return b.expert_sum(finish(b, y, e.down, routes), weights, routes);
}

}  // namespace tessera::nn
