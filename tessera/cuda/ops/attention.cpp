// Attention over the paged cache. Heads of up to 256 elements use the matrix units (attention_flash.cuh), everything
// else and chosen keys f32 (attention_precise.cuh). With few tokens and a long context, blocks divide the splits of the
// context. The partial results are merged by the last of them, or in f32 by a second dispatch. With many tokens, a
// block computes a tile of tokens of one sequence, and a second dispatch computes the tokens of tiles that hold several
// sequences.
#include "tessera/graph/ops/attention.h"
#include "tessera/base/index.h"

#include <algorithm>
#include <limits>

#include "tessera/cuda/kernels.h"
#include "tessera/cuda/kernels/attention_layout.cuh"
#include "tessera/gpu/ops/dispatch.h"

namespace tessera::cuda {

namespace {

constexpr int64_t kReach = kMaxBiasDistance;
constexpr int64_t kMaxSplitTokens = 16;  // more tokens occupy the device without splits
constexpr int64_t kSmallGroup = 8;       // elements that kernels decode at a time
constexpr int64_t kMaxFlashDim = 256;
constexpr int64_t kEnoughBlocks = 1024;  // to occupy any device
constexpr int64_t kLeftBlocks = 512;     // for what tiles left, mostly nothing: as many as run at the same time

bool is_readable(const TensorSpec& cache) { return info(cache.dtype).is_kv_format && cache.shape()[0] <= kMaxHeadDim; }

bool supports_attention(const Graph& graph, const Node& node) {
  for (const size_t side : {1u, 2u})
    if (node.sources[side] != kNoNode && !is_readable(graph[node.sources[side]].spec)) return false;
  const TensorSpec& k = graph[node.sources[1]].spec;
  const int64_t v_begin = k.shape()[0] - std::get<AttentionParams>(node.params).latent_v;
  return !info(k.dtype).is_blocked() || v_begin % kSmallGroup == 0;
}

// The extents that decide how the work is divided.
struct Work {
  bool is_flash, is_split;
  int64_t n_splits, n_tokens, n_heads, n_heads_kv, v_dim;
  int64_t dim;  // of the flash kernel

  int64_t n_shared() const { return n_heads / n_heads_kv; }  // query heads of a KV head
  FlashShape shape() const { return flash_shape(count(dim)); }
  int64_t tile_heads() const { return std::min<int64_t>(n_shared(), shape().n_rows()); }
  int64_t tile_tokens() const { return shape().n_rows() / tile_heads(); }
  int64_t n_token_tiles() const { return div_ceil(n_tokens, tile_tokens()); }
  int64_t n_tiles() const { return n_token_tiles() * n_heads_kv * div_ceil(n_shared(), tile_heads()); }
  int64_t n_split_tokens() const { return std::min(n_tokens, kMaxSplitTokens); }
  // Blocks of attention_few_<dim> per token and split.
  int64_t n_few() const { return n_heads_kv * div_ceil<int64_t>(n_shared(), kFewRows); }
};

bool uses_flash(const StepContext& context) {
  if (context.is_precise || !context.has(2) || context.has(9)) return false;
  for (const size_t side : {1u, 2u}) {
    const TensorSpec& cache = context.spec(side);
    const int64_t dim = cache.shape()[0];
    if (cache.dtype == DType::f32 || dim % kSmallGroup != 0 || dim > kMaxFlashDim) return false;
  }
  return true;
}

Work work_of(const StepContext& context) {
  const Shape &q = context.spec(0).shape(), &k = context.spec(1).shape(), &y = context.shape();
  const int64_t most = std::max(k[0], y[0]), n_blocks = context.spec(5).shape()[0];
  const bool is_flash = uses_flash(context);
  const int64_t n_splits =
      is_flash ? int64_t{flash_split_of(count(n_blocks - 1))} + 1 : div_ceil<int64_t>(n_blocks, kSplitBlocks);
  return {.is_flash = is_flash,
          .is_split = n_splits > 1 && y[2] <= kMaxSplitTokens,
          .n_splits = n_splits,
          .n_tokens = y[2],
          .n_heads = q[1],
          .n_heads_kv = k[2],
          .v_dim = y[0],
          .dim = most <= 64    ? 64
                 : most <= 96  ? 96
                 : most <= 128 ? 128
                               : kMaxFlashDim};
}

// The maximum, sum and values of each split of each head of each token, or a word per tile. A graph with too many
// tokens for splits reports at least the size for kMaxSplitTokens: memory is reserved for the largest graph and must
// suffice for graphs of fewer tokens.
size_t attention_scratch_bytes(const StepContext& context) {
  const Work work = work_of(context);
  const int64_t n_parts = work.n_splits * work.n_heads * work.n_split_tokens();
  const size_t parts = work.n_splits == 1 ? 0 : to_size(n_parts * (work.v_dim + 2)) * sizeof(float);
  const bool has_tiles = work.is_flash && work.n_tokens > kMaxSplitTokens;
  return std::max(parts, has_tiles ? to_size(work.n_tiles()) * sizeof(uint32_t) : 0);
}

Shader flash_kernel(int64_t dim) {
  if (dim == 64) return Shader::attention_flash_64;
  if (dim == 96) return Shader::attention_flash_96;
  return dim == 128 ? Shader::attention_flash_128 : Shader::attention_flash_256;
}
Shader few_kernel(int64_t dim) {
  if (dim == 64) return Shader::attention_few_64;
  if (dim == 96) return Shader::attention_few_96;
  return dim == 128 ? Shader::attention_few_128 : Shader::attention_few_256;
}

// The parameters that attention_flash, attention_few and attention_precise have in common.
void set_params(const StepContext& context, const Work& work, Step& step) {
  const auto& params = std::get<AttentionParams>(context.node.params);
  step.format = context.spec(1).dtype;
  step.format2 = context.has(2) ? context.spec(2).dtype : step.format;
  step.params.u[0] = bits(params.scale);
  step.params.u[1] = bits(params.soft_cap);
  step.params.u[2] = (params.causal ? 1 : 0) | (params.chunked ? 2 : 0);
  step.params.u[3] = count(std::min<int64_t>(params.window, std::numeric_limits<int32_t>::max()));
  step.params.u[4] = count(context.spec(1).shape()[0] - params.latent_v);
  step.params.u[5] = params.max_alibi != 0 ? 1 : 0;
  step.params.u[6] = count(work.n_splits);
  if (params.max_alibi != 0)
    for (int64_t head = 0; head < work.n_heads; ++head)
      step.extra.push_back(bits(alibi_slope(params.max_alibi, head, work.n_heads)));
  if (context.has(8))
    for (int64_t d = -kReach; d <= kReach; ++d)
      step.extra.push_back(count(bias_bucket(d, context.spec(8).shape()[1], params.causal)));
}

// Sets everything of a flash kernel except the variant's other bits and the number of blocks.
void set_flash(const StepContext& context, const Work& work, bool is_few, Step& step) {
  const FlashShape shape = is_few ? few_shape(count(work.dim)) : work.shape();
  set_params(context, work, step);
  step.shader = is_few ? few_kernel(work.dim) : flash_kernel(work.dim);
  step.n_threads = shape.n_threads();
  step.shared_bytes = shape.shared_bytes();
  const auto copies = [&](size_t side, DType dtype) {
    return dtype == DType::f16 && is_wide(step.params.x[side], dtype);
  };
  step.variant = (copies(1, step.format) ? kVariantCopiesK : 0u) | (copies(2, step.format2) ? kVariantCopiesV : 0u);
  step.params.u[7] = count(work.tile_tokens());
  step.params.u[8] = count(work.tile_heads());
  step.params.u[9] = count(work.n_token_tiles());
  // Counters, in graphs of more tokens too: their memory must suffice for graphs of fewer.
  step.params.u[11] = static_cast<uint32_t>(step.extra.size());
  if (work.n_splits > 1) step.extra.resize(step.extra.size() + to_size(work.n_split_tokens() * work.n_few()), 0);
}

Result<> prepare_attention(const StepContext& context, Step& step) {
  const Work work = work_of(context);
  if (!work.is_flash) {
    set_params(context, work, step);
    step.shader = Shader::attention_precise;
    step.variant = (work.is_split ? 1u : 0u) | (context.has(2) ? 0u : 2u);
    return set_groups(step, work.n_heads * work.n_tokens * (work.is_split ? work.n_splits : 1));
  }
  const bool is_few = work.n_tokens <= kMaxSplitTokens;
  set_flash(context, work, is_few, step);
  if (!is_few) return set_groups(step, work.n_tiles());
  const int64_t n_items = work.n_tokens * work.n_few();
  const int64_t n_at_once = work.is_split ? std::clamp<int64_t>(kEnoughBlocks / n_items, 1, work.n_splits) : 1;
  if (work.is_split) step.variant |= kVariantSplits;
  step.params.u[10] = count(work.is_split ? n_at_once : work.n_tokens);
  return set_groups(step, n_items * n_at_once);
}

Result<> prepare_merge(const StepContext& context, Step& step) {
  const Work work = work_of(context);
  if (!work.is_flash && work.is_split) {
    step.shader = Shader::attention_precise_merge;
    step.params.u[6] = count(work.n_splits);
    return set_groups(step, work.n_heads * work.n_tokens);
  }
  if (!work.is_flash || work.n_tokens <= kMaxSplitTokens) return {};
  set_flash(context, work, true, step);
  step.variant |= kVariantLeftTiles;
  const int64_t n_at_once = std::clamp<int64_t>(kLeftBlocks / work.n_few(), 1, work.n_tokens);
  step.params.u[10] = count(n_at_once);
  return set_groups(step, n_at_once * work.n_few());
}

}  // namespace

const OpKernel kAttention{.supports = supports_attention,
                          .prepare = prepare_attention,
                          .scratch_bytes = attention_scratch_bytes,
                          .prepare_merge = prepare_merge};

}  // namespace tessera::cuda
