// Attention over the paged cache: a workgroup takes a token's query head.
#include "tessera/graph/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/vulkan/ops/dispatch.h"

namespace tessera::vulkan {

namespace {

constexpr int64_t kMaxDim = 1024;  // as in attention.comp
constexpr int64_t kReach = kMaxBiasDistance;

bool is_readable(const TensorSpec& cache) {
  const bool is_float = cache.dtype == DType::f32 || cache.dtype == DType::f16 || cache.dtype == DType::bf16;
  return is_float && cache.shape()[0] <= kMaxDim;
}

bool supports_attention(const Graph& graph, const Node& node) {
  for (const size_t side : {1u, 2u})
    if (node.sources[side] != kNoNode && !is_readable(graph[node.sources[side]].spec)) return false;
  return true;
}

// ALiBi's slope of a head (Press et al. 2022): a geometric series over the largest power of two of heads; the heads
// beyond it take every other term of the series of twice as many.
float alibi_slope(float max_bias, int64_t head, int64_t n_heads) {
  const auto n = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n_heads)));
  const double exponent = head < n ? static_cast<double>(head + 1) : static_cast<double>(2 * (head - n) + 1) / 2;
  return static_cast<float>(std::exp2(-double{max_bias} * exponent / static_cast<double>(n)));
}

Result<> prepare_attention(const StepContext& context, Step& step) {
  const auto& params = std::get<AttentionParams>(context.node.params);
  const int64_t n_heads = context.spec(0).shape()[1];
  step.shader = Shader::attention;
  step.format = context.spec(1).dtype;
  step.format2 = context.has(2) ? context.spec(2).dtype : step.format;
  step.params.u[0] = bits(params.scale);
  step.params.u[1] = bits(params.soft_cap);
  step.params.u[2] = params.causal ? 1 : 0;
  step.params.u[3] = count(std::min<int64_t>(params.window, std::numeric_limits<int32_t>::max()));
  step.params.u[4] = count(context.spec(1).shape()[0] - params.latent_v);
  step.params.u[5] = params.max_alibi != 0 ? 1 : 0;
  if (params.max_alibi != 0)
    for (int64_t head = 0; head < n_heads; ++head)
      step.extra.push_back(bits(alibi_slope(params.max_alibi, head, n_heads)));
  if (context.has(8))
    for (int64_t d = -kReach; d <= kReach; ++d)
      step.extra.push_back(count(bias_bucket(d, context.spec(8).shape()[1], params.causal)));
  return set_groups(step, n_heads * context.shape()[2]);
}

}  // namespace

extern const OpKernel kAttention;
const OpKernel kAttention{.supports = supports_attention, .prepare = prepare_attention};

}  // namespace tessera::vulkan
