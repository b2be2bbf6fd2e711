// Mixture of experts: which experts a token goes to, and the sum of what they say.
#pragma once

#include "tessera/nn/ffn.h"

namespace tessera::nn {

/// How router logits become scores; values as {arch}.expert_gating_func has them.
enum class Gating : uint8_t {
  softmax = 1,            // over all experts
  sigmoid = 2,            // of each
  softmax_of_chosen = 3,  // experts are chosen by logits, then softmax over those
  sqrt_softplus = 4,      // of each
};

struct Router {
  const Tensor* weight = nullptr;          // [n_embd, n_experts]
  const Tensor* bias = nullptr;            // [n_experts] or null: added to the logits
  const Tensor* selection_bias = nullptr;  // [n_experts] or null: added to the scores to choose by, not to the weights
  int64_t n_experts = 0;
  int64_t n_used = 0;
  int64_t n_groups = 1;  // experts are chosen from the best n_groups_used groups of neighbours
  int64_t n_groups_used = 1;
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

struct Experts {
  Router router{};
  ExpertLinear gate{}, up{}, down{};
  ExpertLinear gate_up{};  // or one product whose first half is the gate: then gate and up have no weights
  Activation activation = Activation::silu;
};

/// Sum over a token's experts of weight * down(act(gate x) * up x).
Value experts(GraphBuilder& b, Value x, const Experts& experts);

/// The same for tokens that are routed already.
Value experts(GraphBuilder& b, Value x, const Experts& experts, const Routed& routed);

}  // namespace tessera::nn
