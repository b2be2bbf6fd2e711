// Products with weights: a shader for few tokens and one with tiles for many. Both sum in the same order (matmul.glsl),
// so the bits of a token's results do not depend on the number of tokens. On cooperative matrices there are two such
// shaders with an order of their own (cooperative.glsl).
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

// As in cooperative.glsl and the shaders that include it.
constexpr int64_t kMatrixSegment = 256, kMatrixRows = 64, kMatrixTokens = 128, kFewRows = 16;
constexpr int64_t kFewMatrixTokens = 16;
constexpr uint32_t kAlignedY = 1u << 16, kWholeSegments = 1u << 17;

// f16 lacks the range of f32 and bf16.
bool uses_matrices(const StepContext& context) {
  const DType weights = context.spec(0).dtype;
  return context.matrices.n_lanes != 0 && weights != DType::f32 && weights != DType::bf16;
}

bool has_many_tokens(const Product& product) { return product.n_at_a_time > kFewMatrixTokens; }

int64_t n_x_rows(const StepContext& context) { return context.spec(1).layout.shape.n_rows(); }

int64_t n_matrix_segments(const StepContext& context) { return div_ceil(context.spec(0).shape()[0], kMatrixSegment); }

// Sets what all shaders of products read. A workgroup computes group_rows rows of n_rows, and group_tokens tokens at a
// time.
Result<> set_product(const Product& product, int64_t n_rows, int64_t group_rows, int64_t group_tokens, Step& step) {
  const int64_t row_groups = div_ceil(n_rows, group_rows);
  const int64_t n_shares = product.shares_tokens ? div_ceil(product.n_tokens, group_tokens) : 1;
  const int64_t values[] = {row_groups,       n_shares,        product.n_matrices,
                            product.n_tokens, product.x_token, product.y_token,
                            product.x_head,   product.y_head,  product.pairs_per_token};
  for (size_t i = 0; i < std::size(values); ++i) step.params.u[i] = count(values[i]);
  return set_groups(step, row_groups * n_shares * product.n_matrices);
}

// Converted x, and an inverse scale per segment.
size_t product_scratch_bytes(const StepContext& context) {
  if (!uses_matrices(context) || !has_many_tokens(product_of(context.graph, context.node))) return 0;
  return to_size(n_x_rows(context) * n_matrix_segments(context)) * (kMatrixSegment * 2 + sizeof(float));
}

Result<> prepare_conversion(const StepContext& context, Step& step) {
  step.shader = Shader::matmul_convert;
  step.params.u[9] = count(n_x_rows(context));
  return set_groups(step, n_x_rows(context) * n_matrix_segments(context));
}

uint32_t wholeness_of(const TensorSpec& weights) {
  return weights.shape()[0] % kMatrixSegment == 0 ? kWholeSegments : 0;
}

// The bits of kVariant that tell how x and weights can be read.
uint32_t width_of_reads(const Product& product, const Step& step, DType weights) {
  const auto x_strides = static_cast<uint64_t>(product.x_token | product.x_head);
  const bool wide_x = (step.params.x[1].data | x_strides) % kWideBytes == 0;
  return (wide_x ? kWideX : 0) | (is_wide(step.params.x[0], weights) ? kWideWeights : 0);
}

Result<> prepare_few_on_matrices(const StepContext& context, const Product& product, Step& step) {
  const TensorSpec& weights = context.spec(0);
  const int64_t n_tokens = power_of_two(product.n_at_a_time, kFewMatrixTokens);
  step.shader = context.matrices.is_emulated ? Shader::matmul_cooperative_few_emulated : Shader::matmul_cooperative_few;
  step.format = weights.dtype;
  step.variant = context.matrices.n_lanes | count(n_tokens) << 8 | wholeness_of(weights) |
                 width_of_reads(product, step, weights.dtype);
  return set_product(product, weights.shape()[1], kFewRows, n_tokens, step);
}

// The second of two dispatches, after the conversion of x.
Result<> prepare_many_on_matrices(const StepContext& context, Step& step) {
  const Product product = product_of(context.graph, context.node);
  const TensorSpec& weights = context.spec(0);
  const bool is_aligned = (step.params.y.data | static_cast<uint64_t>(product.y_token | product.y_head)) % 16 == 0;
  step.shader = context.matrices.is_emulated ? Shader::matmul_cooperative_emulated : Shader::matmul_cooperative;
  step.format = weights.dtype;
  step.variant = context.matrices.n_lanes | (is_aligned ? kAlignedY : 0) | wholeness_of(weights) |
                 width_of_reads(product, step, weights.dtype);
  step.params.u[9] = count(n_x_rows(context));
  return set_product(product, weights.shape()[1], kMatrixRows, kMatrixTokens, step);
}

Result<> prepare_product(const StepContext& context, Step& step) {
  const Product product = product_of(context.graph, context.node);
  if (product.n_tokens == 0) return {};
  if (uses_matrices(context))
    return has_many_tokens(product) ? prepare_conversion(context, step)
                                    : prepare_few_on_matrices(context, product, step);
  const TensorSpec& weights = context.spec(0);
  const bool is_tiled = product.n_at_a_time > kFewTokens && context.n_lanes > kLanes;
  const GroupShape shape = is_tiled ? GroupShape{0, kTile, kTile}
                                    : few_tokens_shape(product.n_at_a_time, weights.shape()[0], context.n_lanes);
  step.shader = is_tiled ? Shader::matmul_tiles : Shader::matmul;
  step.variant = shape.variant | width_of_reads(product, step, weights.dtype);
  step.format = weights.dtype;
  return set_product(product, weights.shape()[1], shape.n_rows, shape.n_tokens, step);
}

}  // namespace

const OpKernel kProduct{.supports = supports_product,
                        .prepare = prepare_product,
                        .scratch_bytes = product_scratch_bytes,
                        .prepare_merge = prepare_many_on_matrices};

}  // namespace tessera::vulkan
