// Residual streams: one workgroup per token for the weights, and per piece of a token for the sums of streams.
#include "tessera/graph/ops/streams.h"

#include "tessera/gpu/ops/dispatch.h"

namespace tessera::gpu {

namespace {

constexpr uint32_t kUpdates = 1;          // the variant of streams.comp and streams.cu; the streams follow
constexpr int64_t kPieceElements = 4;     // of an invocation
constexpr uint32_t kWeightsThreads = 32;  // of cuda: as many as have work with 4 streams, in whole warps

Result<> prepare_weights(const StepContext& context, Step& step) {
  const auto& params = std::get<StreamParams>(context.node.params);
  step.shader = Shader::streams_weights;
  step.n_threads = kWeightsThreads;
  step.params.u[0] = count(params.n_streams);
  step.params.u[1] = count(params.n_iterations);
  step.params.u[2] = bits(params.eps);
  return set_groups(step, context.shape()[1]);
}

Result<> prepare_sums(const StepContext& context, Step& step) {
  const Shape& streams = context.spec(0).shape();
  const int64_t piece = kPieceElements * int64_t{context.n_lanes};
  step.shader = Shader::streams;
  step.variant = (context.node.op == Op::update_streams ? kUpdates : 0) | count(streams[1]) << 1;
  step.params.u[0] = count(piece);
  return set_groups(step, div_ceil(streams[0], piece) * streams[2]);
}

}  // namespace

const OpKernel op_kernels::stream_weights{.prepare = prepare_weights};
const OpKernel op_kernels::join_streams{.prepare = prepare_sums};
const OpKernel op_kernels::update_streams{.prepare = prepare_sums};

}  // namespace tessera::gpu
