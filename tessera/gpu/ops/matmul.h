// Description of a product with weights, which each backend turns into steps of its own.
#pragma once

#include "tessera/gpu/step.h"

namespace tessera::gpu {

/// A product of a node's first two operands: one or more matrices, each with its own tokens.
struct Product {
  int64_t n_matrices = 1;
  int64_t n_tokens = 0;                                      // 0: no work
  int64_t n_at_a_time = 0;                                   // expected number of tokens per matrix
  bool shares_tokens = false;                                // distribute the tokens of a matrix over workgroups
  int64_t x_token = 0, y_token = 0, x_head = 0, y_head = 0;  // bytes
  int64_t pairs_per_token = 0;
};

bool supports_product(const Graph& graph, const Node& node);
/// Describes a node mul_mat, mul_mat_heads or mul_mat_experts.
Product product_of(const Graph& graph, const Node& node);

}  // namespace tessera::gpu
