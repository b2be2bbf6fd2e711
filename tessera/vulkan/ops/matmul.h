// Products with weights, as the operations of matmul.cpp and experts.cpp describe them.
#pragma once

#include "tessera/vulkan/step.h"

namespace tessera::vulkan {

/// A product of a node's first two operands: one matrix or several, each with tokens of its own.
struct Product {
  int64_t n_matrices = 1;
  int64_t n_tokens = 0;
  int64_t n_at_a_time = 0;                                   // tokens of one matrix that are to be expected together
  bool shares_tokens = false;                                // whether workgroups share out a matrix's tokens
  int64_t x_token = 0, y_token = 0, x_head = 0, y_head = 0;  // bytes
  int64_t pairs_per_token = 0;
};

bool supports_product(const Graph& graph, const Node& node);
/// Chooses shader, variant, format and workgroups. Errors: limit.
Result<> prepare_product(const StepContext& context, const Product& product, Step& step);

}  // namespace tessera::vulkan
