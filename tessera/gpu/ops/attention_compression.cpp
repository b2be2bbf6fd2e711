// Compressed entries: what tokens see of them, and how they are computed from rows.
#include <algorithm>

#include "tessera/gpu/ops/dispatch.h"
#include "tessera/graph/ops/attention.h"

namespace tessera::gpu {

namespace {

constexpr int64_t kWordsPerLane = 8;  // of the result of window_keys

bool supports_window(const Graph&, const Node& node) { return node.spec.shape()[0] <= kMostBlocks; }

// A parameter above kMostPositions means the same as this number: no position reaches it.
Result<> prepare_window(const StepContext& context, Step& step) {
  const auto& params = std::get<KeyWindowParams>(context.node.params);
  const int64_t part = kWordsPerLane * int64_t{context.n_lanes};
  step.shader = Shader::attention_window;
  step.params.u[0] = count(part);
  step.params.u[1] = count(params.window == 0 ? kMostPositions : std::min(params.window, kMostPositions));
  step.params.u[2] = count(std::min(params.ratio, kMostPositions));
  step.params.u[3] = count(params.n_entry_blocks);
  return set_groups(step, div_ceil(2 * context.shape()[0], part) * context.shape()[2]);
}

bool supports_compression(const Graph& graph, const Node& node) {
  return graph[node.sources[5]].spec.shape()[0] <= kMostBlocks;
}

Result<> prepare_compression(const StepContext& context, Step& step) {
  const auto& params = std::get<CompressionParams>(context.node.params);
  const int64_t n_parts = div_ceil(context.shape()[0], int64_t{context.n_lanes});
  step.shader = Shader::attention_compression;
  step.params.u[2] = 1;  // causal, in a window: the positions that attention would see
  step.params.u[3] = count((params.overlaps ? 2 : 1) * params.ratio);
  step.params.u[4] = count(params.ratio);
  step.params.u[5] = params.overlaps ? 1 : 0;
  step.params.u[6] = count(n_parts);
  return set_groups(step, n_parts * context.shape()[1]);
}

}  // namespace

const OpKernel op_kernels::window_keys{.supports = supports_window, .prepare = prepare_window};
const OpKernel op_kernels::compress_rows{.supports = supports_compression, .prepare = prepare_compression};

}  // namespace tessera::gpu
