// Mixture of experts: which experts a token goes to, and the sum of what they say.
#pragma once

#include "tessera/nn/linear.h"

namespace tessera::nn {

/// How router logits become scores; values as {arch}.expert_gating_func has them.
enum class Gating : uint8_t {
  softmax = 1,            // over all experts
  sigmoid = 2,            // of each
  softmax_of_chosen = 3,  // experts are chosen by logits, then softmax over those
};

struct Router {
  const Tensor* weight = nullptr;          // [n_embd, n_experts]
  const Tensor* bias = nullptr;            // [n_experts] or null: added to the logits
  const Tensor* selection_bias = nullptr;  // [n_experts] or null: added to the scores to choose by, not to the weights
  int64_t n_experts = 0;
  int64_t n_used = 0;
  Gating gating = Gating::softmax;
  bool normalize = false;  // a token's weights are divided by their sum
  float scale = 1.0f;      // then multiplied by this
};

/// What a router decides about x's tokens.
struct Routed {
  ExpertRoutes routes;
  Value weights;  // [n_used, t]
};

/// Routes x [n_embd, t]: the n_used experts with the highest scores, in that order.
Routed route(GraphBuilder& b, Value x, const Router& router);

/// One linear layer of every expert: y = scale * (weight x) + bias.
struct ExpertLinear {
  const Tensor* weight = nullptr;  // [n_in, n_out, n_experts]
  const Tensor* bias = nullptr;    // [n_out, n_experts] or null
  const Tensor* scale = nullptr;   // [n_experts] or null
};

struct GatedExperts {
  Router router;
  ExpertLinear gate, up, down;
};

/// Sum over a token's experts of weight * down(silu(gate x) * up x).
Value swiglu_experts(GraphBuilder& b, Value x, const GatedExperts& experts);

}  // namespace tessera::nn
