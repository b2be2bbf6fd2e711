// Attention over the paged cache, which each backend prepares in its own way, and the choice of keys.
#include "tessera/graph/ops/attention.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/gpu/ops/dispatch.h"

namespace tessera::gpu {

namespace {

// As in vulkan/shaders/attention_choice.comp and cuda/kernels/attention_choice.cu.
constexpr uint32_t kWhole = 0, kRanks = 1, kChoice = 2;  // what a dispatch computes
constexpr uint32_t kIsWeighted = 4, kHasTails = 8, kIsWide = 16;
constexpr int64_t kPartBlocks = 4;
constexpr int64_t kSmallGroup = 8;        // elements that kernels decode at a time
constexpr uint32_t kChoiceThreads = 256;  // of cuda: as many as a part has positions

// The most memory for ranks, unless one set of keys needs more. In a context of 131,072 positions it has room for 256
// sets, enough workgroups to occupy a large GPU.
constexpr int64_t kMostRankBytes = int64_t{128} << 20;

// A set of keys of a token is an item. Each needs a rank per position of the longest context.
struct ChoiceWork {
  explicit ChoiceWork(const StepContext& context)
      : n_items(context.shape()[1] * context.shape()[2]),
        n_blocks(context.shape()[0]),
        item_bytes(n_blocks * kKvBlockTokens * int64_t{sizeof(uint32_t)}),
        n_at_once(std::min(n_items, std::max<int64_t>(kMostRankBytes / std::max<int64_t>(item_bytes, 1), 1))) {}

  // If there is room for the ranks of all items, a dispatch ranks keys, with several workgroups per item, and a second
  // one chooses. Else a workgroup does all of this for one item after the other.
  bool is_split() const { return n_blocks > 0 && n_at_once == n_items; }
  int64_t n_parts() const { return div_ceil(n_blocks, kPartBlocks); }

  int64_t n_items, n_blocks, item_bytes, n_at_once;
};

bool supports_choice(const Graph& graph, const Node& node) {
  const TensorSpec& k = graph[node.sources[1]].spec;
  return info(k.dtype).is_kv_format && k.shape()[0] <= kMaxHeadDim && node.spec.shape()[0] <= kMostBlocks;
}

// Does not shrink when there are more tokens or positions, though there may be room for fewer items then.
size_t choice_scratch_bytes(const StepContext& context) {
  const ChoiceWork work(context);
  if (work.item_bytes == 0) return 0;
  const int64_t most_items = kMostRankBytes / work.item_bytes;
  return to_size(work.n_items <= most_items ? work.n_items * work.item_bytes
                                            : std::max(kMostRankBytes, work.item_bytes));
}

void set_choice(const StepContext& context, const ChoiceWork& work, Step& step) {
  const auto& params = std::get<KeyChoiceParams>(context.node.params);
  step.shader = Shader::attention_choice;
  step.n_threads = kChoiceThreads;
  step.params.u[2] = 1;  // causal, without a window: the positions that attention would see
  step.params.u[4] = count(std::min(params.n_chosen, kMostPositions));
  step.params.u[5] = count(std::min(params.unit, kMostPositions));
  step.params.u[6] = count(std::min(params.n_local, kMostPositions));
  step.params.u[7] = count(work.n_parts());
  step.params.u[8] = count(work.n_items);
}

Result<> prepare_choice(const StepContext& context, Step& step) {
  const ChoiceWork work(context);
  const bool has_tails = context.spec(1).shape()[0] % kSmallGroup != 0;
  set_choice(context, work, step);
  step.format = context.spec(1).dtype;
  step.variant = (work.is_split() ? kRanks : kWhole) | (context.has(2) ? kIsWeighted : 0u) |
                 (has_tails ? kHasTails : 0u) | (!has_tails && is_wide(step.params.x[1], step.format) ? kIsWide : 0u);
  return set_groups(step, work.is_split() ? work.n_items * work.n_parts() : work.n_at_once);
}

Result<> prepare_second_choice(const StepContext& context, Step& step) {
  const ChoiceWork work(context);
  if (!work.is_split()) return {};
  set_choice(context, work, step);
  step.variant = kChoice;
  return set_groups(step, work.n_items);
}

}  // namespace

const OpKernel op_kernels::paged_attention{.own = OwnKernel::attention};
const OpKernel op_kernels::choose_keys{.supports = supports_choice,
                                       .prepare = prepare_choice,
                                       .scratch_bytes = choice_scratch_bytes,
                                       .prepare_merge = prepare_second_choice};

}  // namespace tessera::gpu
