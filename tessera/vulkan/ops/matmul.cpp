// Products with weights: one shader for few tokens and one with tiles for many. Both sum in the same order
// (matmul.glsl), so the bits of a token's results do not depend on the number of tokens.
#include "tessera/gpu/ops/matmul.h"

#include <algorithm>
#include <bit>

#include "tessera/gpu/ops/dispatch.h"
#include "tessera/vulkan/kernels.h"

namespace tessera::vulkan {

namespace {

// As in matmul.glsl and matmul_tiles.comp.
constexpr int64_t kLanes = 8, kSegment = 1024, kTile = 32;
constexpr uint32_t kWideX = 1u << 24, kWideWeights = 1u << 25;

// With more tokens the tile shader is used, except on devices with only kLanes invocations per workgroup, where tiles
// are not faster than rows.
constexpr int64_t kFewTokens = 8;

// Returns the smallest power of two that is at least n, but at most `most`.
uint32_t power_of_two(int64_t n, uint32_t most) {
  return static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))), most));
}

// The shape of a workgroup.
struct GroupShape {
  uint32_t variant;
  int64_t n_rows, n_tokens;
};

// On a CPU more invocations would not be faster, so each invocation computes more rows.
GroupShape few_tokens_shape(int64_t n_tokens, int64_t k, int64_t n_lanes) {
  const uint32_t at_a_time = power_of_two(n_tokens, kFewTokens);
  const uint32_t rows = n_lanes == kLanes ? 8 : at_a_time <= 2 ? 2 : 4;
  const int64_t n_teams = n_lanes / kLanes, n_segments = std::max<int64_t>(div_ceil(k, kSegment), 1);
  const auto segments = static_cast<uint32_t>(std::bit_floor(static_cast<uint64_t>(std::min(n_segments, n_teams))));
  return {at_a_time | rows << 8 | segments << 16, n_teams / segments * rows, at_a_time};
}

Result<> prepare_product(const StepContext& context, Step& step) {
  const Product product = product_of(context.graph, context.node);
  if (product.n_tokens == 0) return {};
  const TensorSpec& weights = context.spec(0);
  const bool is_tiled = product.n_at_a_time > kFewTokens && context.n_lanes > kLanes;
  const GroupShape shape = is_tiled ? GroupShape{0, kTile, kTile}
                                    : few_tokens_shape(product.n_at_a_time, weights.shape()[0], context.n_lanes);
  const auto x_strides = static_cast<uint64_t>(product.x_token | product.x_head);
  const bool wide_x = (step.params.x[1].data | x_strides) % kWideBytes == 0;
  const bool wide_weights = is_wide(step.params.x[0], weights.dtype);
  step.shader = !is_tiled ? Shader::matmul : context.cooperates ? Shader::matmul_cooperative : Shader::matmul_tiles;
  step.variant = shape.variant | (wide_x ? kWideX : 0) | (wide_weights ? kWideWeights : 0);
  step.format = weights.dtype;
  const int64_t row_groups = div_ceil(weights.shape()[1], shape.n_rows);
  const int64_t n_shares = product.shares_tokens ? div_ceil(product.n_tokens, shape.n_tokens) : 1;
  const int64_t values[] = {row_groups,       n_shares,        product.n_matrices,
                            product.n_tokens, product.x_token, product.y_token,
                            product.x_head,   product.y_head,  product.pairs_per_token};
  for (size_t i = 0; i < std::size(values); ++i) step.params.u[i] = count(values[i]);
  return set_groups(step, row_groups * n_shares * product.n_matrices);
}

}  // namespace

const OpKernel kProduct{.supports = supports_product, .prepare = prepare_product};

}  // namespace tessera::vulkan
