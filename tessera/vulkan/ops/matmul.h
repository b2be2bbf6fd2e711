// Description of a product with weights, used by the operations of matmul.cpp and experts.cpp.
#pragma once

#include "tessera/vulkan/step.h"

namespace tessera::vulkan {

/// A product of a node's first two operands: one or more matrices, each with its own tokens.
struct Product {
  int64_t n_matrices = 1;
  int64_t n_tokens = 0;
  int64_t n_at_a_time = 0;                                   // expected number of tokens per matrix
  bool shares_tokens = false;                                // distribute the tokens of a matrix over workgroups
  int64_t x_token = 0, y_token = 0, x_head = 0, y_head = 0;  // bytes
  int64_t pairs_per_token = 0;
};

bool supports_product(const Graph& graph, const Node& node);
/// Chooses shader, variant, format and workgroups. Errors: limit.
Result<> prepare_product(const StepContext& context, const Product& product, Step& step);

}  // namespace tessera::vulkan
