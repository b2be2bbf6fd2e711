// Shared by experts*.cpp: the routes of a mixture of experts (graph/ops/experts.h), and the choice of experts.
#pragma once

#include "tessera/cpu/step.h"

namespace tessera::cpu {

struct Routes {
  Routes(const Operand& routes, int64_t n_experts)
      : n_experts(n_experts),
        n_pairs((routes.shape()[0] - n_experts - 1) / 2),
        begins(routes.row<int32_t>(0)),
        pairs(begins + n_experts + 1),
        rows(pairs + n_pairs) {}

  /// Returns the rows of an expert.
  Range of(int64_t expert) const { return {begins[expert], begins[expert + 1]}; }

  int64_t n_experts, n_pairs;
  int32_t* begins;  // first row of each expert, n_experts + 1 entries
  int32_t* pairs;   // indexed by row
  int32_t* rows;    // indexed by pair
};

/// Writes the ids of the k highest of n scores, the highest first. k <= n. Of equal scores, the one with the smaller id
/// comes first. NaN is lower than any number.
void top_k_of_row(const float* scores, int64_t n, int64_t k, int32_t* ids);

}  // namespace tessera::cpu
