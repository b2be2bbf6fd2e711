// Mixture of experts: routing, and the weighted sum of expert outputs.
#pragma once

#include "tessera/nn/ffn.h"

namespace tessera::nn {

/// Functions that turn router logits into scores. Values are those of {arch}.expert_gating_func.
enum class Gating : uint8_t {
  softmax = 1,            // over all experts
  sigmoid = 2,            // of each expert separately
  softmax_of_chosen = 3,  // experts are chosen by logits; softmax over the chosen ones
  sqrt_softplus = 4,      // of each expert separately
};

struct Router {
  const Tensor* weight = nullptr;          // [n_embd, n_experts]
  const Tensor* bias = nullptr;            // [n_experts] or null: added to the logits
  const Tensor* selection_bias = nullptr;  // [n_experts] or null: added to the scores only for the choice
  int64_t n_experts = 0;
  int64_t n_used = 0;
  int64_t n_groups = 1;  // experts are chosen from the best n_groups_used groups of consecutive experts
  int64_t n_groups_used = 1;
  Gating gating = Gating::softmax;
  bool normalize = false;  // divide a token's weights by their sum
  float scale = 1.0f;      // factor applied after that
};

/// The routing of the tokens of x.
struct Routed {
  ExpertRoutes routes;
  Value weights;  // [n_used, t]
};

/// Routes x [n_embd, t] to the n_used experts with the highest scores, in descending order of score.
Routed route(GraphBuilder& b, Value x, const Router& router);

/// The scores of x for all experts [n_experts, t], and the routing by them.
Value router_scores(GraphBuilder& b, Value x, const Router& router);
Routed route_by_scores(GraphBuilder& b, Value scores, const Router& router);

/// One linear layer of every expert: y = scale * (weight x) + bias.
struct ExpertLinear {
  const Tensor* weight = nullptr;  // [n_in, n_out, n_experts]
  const Tensor* bias = nullptr;    // [n_out, n_experts] or null
  const Tensor* scale = nullptr;   // [n_experts] or null
};

struct Experts {
  Router router{};
  ExpertLinear gate{}, up{}, down{};  // the gate may be absent
  ExpertLinear gate_up{};             // one product whose first half is the gate; then gate and up have no weights
  Activation activation = Activation::silu;
  float limit = 0.0f;              // as in Ffn
  bool limits_gate_input = false;  // as in Ffn
};

/// Sum over a token's experts of weight * down(act(gate x) * up x); without a gate, of weight * down(act(up x)).
Value experts(GraphBuilder& b, Value x, const Experts& experts);

/// The same with given routing. With ExpertInput::routed, x has a row per pair of a token and an expert [n_embd,
/// n_pairs].
Value experts(GraphBuilder& b, Value x, const Experts& experts, const Routed& routed,
              ExpertInput input = ExpertInput::tokens);

}  // namespace tessera::nn
