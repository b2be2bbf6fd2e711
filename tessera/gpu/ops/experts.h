// The operations of a mixture of experts, except products.
#pragma once

#include <cstdint>

namespace tessera::gpu {

/// Variants of the shader and of the kernel `experts`.
enum class ExpertOp : uint32_t {
  top_k,
  top_groups,
  expert_weights,
  expert_routes,
  expert_rows,
  expert_sum,
  expert_spread
};

}  // namespace tessera::gpu
