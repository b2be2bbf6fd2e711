// Terms that adapters add to the values of a model while its graph is built (GraphBuilder::adapt): low-rank terms for
// the products with some weights (Hu et al. 2021), and vectors on the outputs of layers. The tensors must outlive the
// graph.
#pragma once

#include <unordered_map>
#include <vector>

#include "tessera/graph/value.h"

namespace tessera {

/// factor * up (down x), with one pair of matrices per expert if there are experts.
struct LowRank {
  const Tensor* down = nullptr;  // [k, r] or [k, r, n_experts]
  const Tensor* up = nullptr;    // [r, n] or [r, n, n_experts]
  float factor = 1.0f;
};

struct AdapterTerms {
  std::unordered_map<const Tensor*, LowRank> products;  // by weight: term of its product with x
  std::unordered_map<const Tensor*, LowRank> rows;      // by table: term of row i, factor * up (row i of down)
  std::vector<const Tensor*> layers;  // [n_embd] for the output of layer i; none if null or beyond the end
};

/// An adapter that is active in a step, with a factor per token.
struct ActiveAdapter {
  const AdapterTerms* terms = nullptr;
  Value scales{};         // [1, n_tokens]
  Value wanted_scales{};  // [1, n_outputs], for output tokens; absent if none or all are outputs
};

}  // namespace tessera
