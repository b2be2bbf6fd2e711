// Recurrent layers: one invocation per channel, or per value of a head, computes all tokens of a segment.
#include "tessera/graph/ops/recurrent.h"

#include "tessera/gpu/ops/dispatch.h"

namespace tessera::gpu {

namespace {

// The variants of recurrent.comp.
enum class RecurrentOp : uint32_t { causal_conv, token_shift, selective_scan, delta_net, rwkv7 };

constexpr size_t segments_operand(RecurrentOp op) {
  switch (op) {
    case RecurrentOp::causal_conv:
      return 3;
    case RecurrentOp::token_shift:
      return 2;
    case RecurrentOp::delta_net:
      return 6;
    default:
      return 7;
  }
}

template <RecurrentOp kOp>
Result<> prepare(const StepContext& context, Step& step) {
  constexpr bool kByChannel = kOp == RecurrentOp::causal_conv || kOp == RecurrentOp::token_shift;
  const Shape& shape = context.shape();
  const int64_t n_items = kByChannel ? shape[0] : shape[0] * shape[1], n_tokens = kByChannel ? shape[1] : shape[2];
  const int64_t n_segments = (context.spec(segments_operand(kOp)).shape()[0] - n_tokens) / kSegmentFields;
  const int64_t per_segment = div_ceil<int64_t>(n_items, context.n_lanes);
  step.shader = Shader::recurrent;
  step.variant = static_cast<uint32_t>(kOp);
  step.params.u[0] = count(per_segment);
  step.params.u[1] = count(n_segments);
  step.params.u[2] = count(n_tokens);
  step.params.u[3] = count(n_items);
  if constexpr (kOp == RecurrentOp::delta_net) {
    const auto& params = std::get<DeltaNetParams>(context.node.params);
    step.params.u[4] = params.key_heads == KeyHeads::tiled ? 1 : 0;
    step.params.u[5] = bits(params.scale);
  } else if constexpr (kOp == RecurrentOp::rwkv7) {
    step.params.u[4] = std::get<Rwkv7Params>(context.node.params).read == StateRead::before ? 1 : 0;
  }
  return set_groups(step, per_segment * n_segments);
}

}  // namespace

const OpKernel op_kernels::causal_conv{.prepare = prepare<RecurrentOp::causal_conv>};
const OpKernel op_kernels::token_shift{.prepare = prepare<RecurrentOp::token_shift>};
const OpKernel op_kernels::selective_scan{.prepare = prepare<RecurrentOp::selective_scan>};
const OpKernel op_kernels::delta_net{.prepare = prepare<RecurrentOp::delta_net>};
const OpKernel op_kernels::rwkv7{.prepare = prepare<RecurrentOp::rwkv7>};

}  // namespace tessera::gpu
