// What adapters add to the values of a model while its graph is built (GraphBuilder::adapt): low-rank terms beside the
// products with some weights (Hu et al. 2021), and vectors on the outputs of layers. The tensors outlive the graph.
#pragma once

#include <unordered_map>
#include <vector>

#include "tessera/graph/value.h"

namespace tessera {

/// factor * up (down x), with experts: a pair of matrices for each.
struct LowRank {
  const Tensor* down = nullptr;  // [k, r] or [k, r, n_experts]
  const Tensor* up = nullptr;    // [r, n] or [r, n, n_experts]
  float factor = 1.0f;
};

struct AdapterTerms {
  std::unordered_map<const Tensor*, LowRank> products;  // by weight: what its product with x gets besides
  std::unordered_map<const Tensor*, LowRank> rows;      // by table: row i gets factor * up (row i of down)
  std::vector<const Tensor*> layers;  // [n_embd] for the output of layer i; null, or behind the end: none
};

/// An adapter of a step, and how much of it each token gets.
struct ActiveAdapter {
  const AdapterTerms* terms = nullptr;
  Value scales{};         // [1, n_tokens]
  Value wanted_scales{};  // [1, n_outputs] of the tokens whose outputs are wanted; absent where none or all are
};

}  // namespace tessera
