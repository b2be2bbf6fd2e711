// Residual streams: their weights by token, and their sums by pieces of tokens.
#include "tessera/graph/ops/streams.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

static_assert(kMaxStreams == kStreams, "the graph and the kernels agree on the most streams");

// Elements of a piece of a stream: a part of a token, so that all threads have work in decoding.
constexpr int64_t kStreamElements = 256;

void run_stream_weights(const Step& step, Worker& worker) {
  const auto& params = std::get<StreamParams>(step.node->params);
  const Operand &m = step.in[0], &bias = step.in[1], &scale = step.in[2];
  const Range share = worker.share(step.out.shape()[1]);
  for (int64_t t = share.begin; t < share.end; ++t)
    worker.kernels.streams->weights({.m = m.row(t),
                                     .bias = bias.row(0),
                                     .scale = scale.row(0),
                                     .n_streams = static_cast<int>(params.n_streams),
                                     .is_input = m.shape()[0] == params.n_streams,
                                     .n_iterations = params.n_iterations,
                                     .eps = params.eps,
                                     .out = step.out.row(t)});
}

// Calls piece(token, begin, n) for this thread's share of the pieces of all tokens.
template <class Piece>
void for_stream_pieces(const Operand& streams, Worker& worker, Piece piece) {
  const int64_t n = streams.shape()[0], per_token = div_ceil(n, kStreamElements);
  const Range share = worker.share(streams.shape()[2] * per_token);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t begin = i % per_token * kStreamElements;
    piece(i / per_token, begin, std::min(kStreamElements, n - begin));
  }
}

void run_join_streams(const Step& step, Worker& worker) {
  const Operand &x = step.in[0], &weights = step.in[1];
  for_stream_pieces(x, worker, [&](int64_t t, int64_t begin, int64_t n) {
    worker.kernels.streams->join({.x = x.row(0, t) + begin,
                                  .x_stride = stride(x, 1),
                                  .weights = weights.row(t),
                                  .n_streams = static_cast<int>(x.shape()[1]),
                                  .n = n,
                                  .out = step.out.row(t) + begin});
  });
}

void run_update_streams(const Step& step, Worker& worker) {
  const Operand &x = step.in[0], &y = step.in[1], &weights = step.in[2];
  for_stream_pieces(x, worker, [&](int64_t t, int64_t begin, int64_t n) {
    worker.kernels.streams->update({.x = x.row(0, t) + begin,
                                    .x_stride = stride(x, 1),
                                    .weights = weights.row(t),
                                    .n_streams = static_cast<int>(x.shape()[1]),
                                    .y = y.row(t) + begin,
                                    .n = n,
                                    .out = step.out.row(0, t) + begin,
                                    .out_stride = stride(step.out, 1)});
  });
}

}  // namespace

const OpKernel op_kernels::stream_weights{.run = run_stream_weights};
const OpKernel op_kernels::join_streams{.run = run_join_streams};
const OpKernel op_kernels::update_streams{.run = run_update_streams};

}  // namespace tessera::cpu
