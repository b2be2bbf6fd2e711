// Attention over the paged cache: one workgroup per query head of a token. With few tokens and a long context, the
// context is split, with one workgroup per split, and a second dispatch merges the partial results. With many tokens, a
// workgroup takes several queries of a KV head. Each way has the same bits.
#include "tessera/graph/ops/attention.h"
#include "tessera/base/index.h"

#include <algorithm>
#include <limits>

#include "tessera/gpu/ops/dispatch.h"
#include "tessera/vulkan/kernels.h"

namespace tessera::vulkan {

namespace {

constexpr int64_t kReach = kMaxBiasDistance;
constexpr int64_t kSplitBlocks = 4;      // as in attention.glsl
constexpr int64_t kMaxSplitTokens = 16;  // more tokens occupy the device without splits
constexpr int64_t kSmallGroup = 8;       // elements that shaders decode at a time

bool is_readable(const TensorSpec& cache) { return info(cache.dtype).is_kv_format && cache.shape()[0] <= kMaxHeadDim; }

bool supports_attention(const Graph& graph, const Node& node) {
  for (const size_t side : {1u, 2u})
    if (node.sources[side] != kNoNode && !is_readable(graph[node.sources[side]].spec)) return false;
  const TensorSpec& k = graph[node.sources[1]].spec;
  const int64_t v_begin = k.shape()[0] - std::get<AttentionParams>(node.params).latent_v;
  return !info(k.dtype).is_blocked() || v_begin % kSmallGroup == 0;
}

int64_t n_splits_of(const Graph& graph, const Node& node) {
  return div_ceil(graph[node.sources[5]].spec.shape()[0], kSplitBlocks);
}

bool is_split(const Graph& graph, const Node& node) {
  return n_splits_of(graph, node) > 1 && node.spec.shape()[2] <= kMaxSplitTokens;
}

// The maximum, sum and values of each split of each head of each token. A graph with too many tokens for splits reports
// the size for kMaxSplitTokens: memory is reserved for the largest graph and must suffice for graphs of fewer tokens.
size_t attention_scratch_bytes(const StepContext& context) {
  const int64_t n_splits = n_splits_of(context.graph, context.node);
  const Shape& y = context.shape();
  if (n_splits == 1) return 0;
  return to_size(n_splits * y[1] * std::min(y[2], kMaxSplitTokens) * (y[0] + 2)) * sizeof(float);
}

// Returns kVariant of attention.comp.
uint32_t variant_of(const StepContext& context, const Step& step) {
  const bool is_latent = !context.has(2);
  const int64_t k_dim = context.spec(1).shape()[0], v_dim = context.shape()[0];
  const int64_t v_begin = is_latent ? k_dim - v_dim : 0;
  const bool has_tails = (k_dim | v_dim) % kSmallGroup != 0;
  const bool wide_k = !has_tails && is_wide(step.params.x[1], step.format);
  const bool wide_v =
      is_latent ? wide_k && v_begin % kSmallGroup == 0 : !has_tails && is_wide(step.params.x[2], step.format2);
  return (is_split(context.graph, context.node) ? 1u : 0u) | (is_latent ? 2u : 0u) | (has_tails ? 4u : 0u) |
         (wide_k ? 8u : 0u) | (wide_v ? 16u : 0u) | (context.has(9) ? 32u : 0u);
}

// As in attention_tiles.comp: dimensions of a head by queries of a workgroup, which share 256 invocations.
constexpr int64_t kTileWords = 2048, kMostTileQueries = 16, kFewestTileQueries = 4, kTileSharedBytes = 32768;
constexpr int64_t kTileLanes = 64;  // of a query

int64_t largest_dim(const StepContext& context) { return std::max(context.spec(1).shape()[0], context.shape()[0]); }

bool is_tiled(const StepContext& context) {
  const int64_t dims = context.spec(1).shape()[0] | context.shape()[0];
  return context.shape()[2] > kMaxSplitTokens && context.has(2) && context.n_lanes == kTileLanes &&
         context.shared_bytes >= kTileSharedBytes && dims % kSmallGroup == 0 &&
         largest_dim(context) <= kTileWords / kFewestTileQueries;
}

Result<> set_tiles(const StepContext& context, Step& step) {
  int64_t n_queries = kMostTileQueries;
  while (n_queries * largest_dim(context) > kTileWords) n_queries /= 2;
  const int64_t n_kv_heads = context.spec(1).shape()[2];
  const int64_t n_groups = div_ceil(context.shape()[2] * context.spec(0).shape()[1] / n_kv_heads, n_queries);
  step.shader = Shader::attention_tiles;
  step.variant = count(n_queries) | step.variant << 8;
  step.params.u[7] = count(n_groups);
  return set_groups(step, n_groups * n_kv_heads);
}

Result<> prepare_attention(const StepContext& context, Step& step) {
  const auto& params = std::get<AttentionParams>(context.node.params);
  const int64_t n_heads = context.spec(0).shape()[1], n_splits = n_splits_of(context.graph, context.node);
  const int64_t n_parts = is_split(context.graph, context.node) ? n_splits : 1;
  step.shader = Shader::attention;
  step.format = context.spec(1).dtype;
  step.format2 = context.has(2) ? context.spec(2).dtype : step.format;
  step.variant = variant_of(context, step);
  step.params.u[0] = bits(params.scale);
  step.params.u[1] = bits(params.soft_cap);
  step.params.u[2] = (params.causal ? 1 : 0) | (params.chunked ? 2 : 0);
  step.params.u[3] = count(std::min<int64_t>(params.window, std::numeric_limits<int32_t>::max()));
  step.params.u[4] = count(context.spec(1).shape()[0] - params.latent_v);
  step.params.u[5] = params.max_alibi != 0 ? 1 : 0;
  step.params.u[6] = count(n_splits);
  if (params.max_alibi != 0)
    for (int64_t head = 0; head < n_heads; ++head)
      step.extra.push_back(bits(alibi_slope(params.max_alibi, head, n_heads)));
  if (context.has(8))
    for (int64_t d = -kReach; d <= kReach; ++d)
      step.extra.push_back(count(bias_bucket(d, context.spec(8).shape()[1], params.causal)));
  if (is_tiled(context)) return set_tiles(context, step);
  return set_groups(step, n_heads * context.shape()[2] * n_parts);
}

Result<> prepare_merge(const StepContext& context, Step& step) {
  if (!is_split(context.graph, context.node)) return {};
  step.shader = Shader::attention_merge;
  step.params.u[6] = count(n_splits_of(context.graph, context.node));
  return set_groups(step, context.spec(0).shape()[1] * context.shape()[2]);
}

}  // namespace

const OpKernel kAttention{.supports = supports_attention,
                          .prepare = prepare_attention,
                          .scratch_bytes = attention_scratch_bytes,
                          .prepare_merge = prepare_merge};

}  // namespace tessera::vulkan
