// Recurrent layers. Sequences, and pieces of their channels or heads, are distributed over the threads. A thread
// computes all tokens of a sequence for one piece before the next, so the piece's part of the state stays in the
// first-level cache.
#include "tessera/graph/ops/recurrent.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/ops/recurrent_segments.h"

namespace tessera::cpu {

namespace {

static_assert(kMaxConvWidth == kConvWidth, "the graph and the kernels agree on a convolution");

// Upper bound for the floats of a state per piece: half of a first-level cache of 32 KiB.
constexpr int64_t kStatePieceElements = 4096;

// Calls piece(segment, begin, end) for this thread's share of the pieces of all segments. Each segment has n_items
// items, at most per_piece per piece.
template <class Piece>
void for_pieces(Worker& worker, const Segments& segments, int64_t n_items, int64_t per_piece, Piece piece) {
  const int64_t n_pieces = div_ceil(n_items, per_piece);
  const Range share = worker.share(segments.size() * n_pieces);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t begin = i % n_pieces * per_piece;
    if (const auto segment = segments.at(worker, i / n_pieces))
      piece(*segment, begin, std::min(begin + per_piece, n_items));
  }
}

void run_causal_conv(const Step& step, Worker& worker) {
  const Operand &x = step.in[0], &weight = step.in[1], &bias = step.in[4];
  const int64_t n = x.shape()[0], width = weight.shape()[0];
  const Segments segments(step, step.in[2], step.in[3], x.shape()[1]);
  for_pieces(worker, segments, n, kConvChannels, [&](const Segment& segment, int64_t begin, int64_t end) {
    worker.kernels.recurrent->causal_conv({.tokens = segment.tokens.data(),
                                           .n_tokens = static_cast<int64_t>(segment.tokens.size()),
                                           .n_channels = end - begin,
                                           .width = width,
                                           .x = x.row(0) + begin,
                                           .x_stride = stride(x, 1),
                                           .out = step.out.row(0) + begin,
                                           .out_stride = stride(step.out, 1),
                                           .weight = weight.row(begin),
                                           .bias = bias.present() ? bias.row(0) + begin : nullptr,
                                           .before = offset(segment.before, begin),
                                           .after = segment.after + begin,
                                           .state_stride = n});
  });
}

void run_token_shift(const Step& step, Worker& worker) {
  const Operand& x = step.in[0];
  const Segments segments(step, step.in[1], step.in[2], x.shape()[1]);
  for_pieces(
      worker, segments, x.shape()[0], kStatePieceElements, [&](const Segment& segment, int64_t begin, int64_t end) {
        for (size_t i = 0; i < segment.tokens.size(); ++i) {
          const float* now = x.row(segment.tokens[i]);
          const float* last = i > 0 ? x.row(segment.tokens[i - 1]) : segment.before;
          float* out = step.out.row(segment.tokens[i]);
          for (int64_t c = begin; c < end; ++c) out[c] = (last == nullptr ? 0.0f : last[c]) - now[c];
        }
        std::copy(x.row(segment.tokens.back()) + begin, x.row(segment.tokens.back()) + end, segment.after + begin);
      });
}

void run_selective_scan(const Step& step, Worker& worker) {
  const Operand &x = step.in[0], &dt = step.in[1], &a = step.in[2], &b = step.in[3], &c = step.in[4];
  const int64_t n_heads = x.shape()[1], n_state = b.shape()[0];
  const Segments segments(step, step.in[6], step.in[7], x.shape()[2]);
  const int64_t per_piece = std::max<int64_t>(kStatePieceElements / (n_state * x.shape()[0]), 1);
  for_pieces(worker, segments, n_heads, per_piece, [&](const Segment& segment, int64_t begin, int64_t end) {
    worker.kernels.recurrent->selective_scan({.tokens = segment.tokens.data(),
                                              .n_tokens = static_cast<int64_t>(segment.tokens.size()),
                                              .n_state = n_state,
                                              .head_dim = x.shape()[0],
                                              .head_begin = begin,
                                              .head_end = end,
                                              .heads_per_group = n_heads / b.shape()[1],
                                              .x = x.row(0),
                                              .x_head_stride = stride(x, 1),
                                              .x_stride = stride(x, 2),
                                              .dt = dt.row(0),
                                              .dt_stride = stride(dt, 1),
                                              .a = a.row(0),
                                              .a_per_head = a.shape()[0] == 1,
                                              .b = b.row(0),
                                              .c = c.row(0),
                                              .b_group_stride = stride(b, 1),
                                              .b_stride = stride(b, 2),
                                              .c_group_stride = stride(c, 1),
                                              .c_stride = stride(c, 2),
                                              .d = step.in[5].row(0),
                                              .out = step.out.row(0),
                                              .out_stride = stride(step.out, 2),
                                              .before = segment.before,
                                              .after = segment.after});
  });
}

// Calls piece(segment, head, begin, end) for pieces of the values of each head.
template <class Piece>
void for_values(Worker& worker, const Segments& segments, int64_t n_heads, int64_t k_dim, int64_t v_dim, Piece piece) {
  const int64_t per_piece = std::clamp<int64_t>(kStatePieceElements / k_dim, 1, v_dim);
  const int64_t per_head = div_ceil(v_dim, per_piece);
  for_pieces(worker, segments, n_heads * per_head, 1, [&](const Segment& segment, int64_t i, int64_t) {
    const int64_t begin = i % per_head * per_piece;
    piece(segment, i / per_head, begin, std::min(begin + per_piece, v_dim));
  });
}

void run_delta_net(const Step& step, Worker& worker) {
  const auto& params = std::get<DeltaNetParams>(step.node->params);
  const Operand &q = step.in[0], &k = step.in[1], &v = step.in[2], &decay = step.in[3], &beta = step.in[4];
  const int64_t k_dim = q.shape()[0], v_dim = v.shape()[0], n_heads = v.shape()[1], n_k = q.shape()[1];
  const Segments segments(step, step.in[5], step.in[6], v.shape()[2]);
  for_values(worker, segments, n_heads, k_dim, v_dim,
             [&](const Segment& segment, int64_t head, int64_t begin, int64_t end) {
               const int64_t k_head = params.key_heads == KeyHeads::tiled ? head % n_k : head / (n_heads / n_k);
               const int64_t at = (head * v_dim + begin) * k_dim;
               worker.kernels.recurrent->delta_net({.tokens = segment.tokens.data(),
                                                    .n_tokens = static_cast<int64_t>(segment.tokens.size()),
                                                    .k_dim = k_dim,
                                                    .n_values = end - begin,
                                                    .q = q.row(k_head),
                                                    .k = k.row(k_head),
                                                    .q_stride = stride(q, 2),
                                                    .k_stride = stride(k, 2),
                                                    .v = v.row(head) + begin,
                                                    .v_stride = stride(v, 2),
                                                    .decay = decay.row(0) + head,
                                                    .beta = beta.row(0) + head,
                                                    .decay_stride = stride(decay, 1),
                                                    .beta_stride = stride(beta, 1),
                                                    .scale = params.scale,
                                                    .out = step.out.row(head) + begin,
                                                    .out_stride = stride(step.out, 2),
                                                    .before = offset(segment.before, at),
                                                    .after = segment.after + at});
             });
}

void run_rwkv7(const Step& step, Worker& worker) {
  const Operand &r = step.in[0], &decay = step.in[1], &k = step.in[2], &v = step.in[3], &a = step.in[4],
                &b = step.in[5];
  const int64_t dim = r.shape()[0];
  const bool reads_before = std::get<Rwkv7Params>(step.node->params).read == StateRead::before;
  const Segments segments(step, step.in[6], step.in[7], r.shape()[2]);
  for_values(worker, segments, r.shape()[1], dim, dim,
             [&](const Segment& segment, int64_t head, int64_t begin, int64_t end) {
               const int64_t at = (head * dim + begin) * dim;
               worker.kernels.recurrent->rwkv7({.tokens = segment.tokens.data(),
                                                .n_tokens = static_cast<int64_t>(segment.tokens.size()),
                                                .head_dim = dim,
                                                .n_values = end - begin,
                                                .reads_before = reads_before,
                                                .r = r.row(head),
                                                .decay = decay.row(head),
                                                .k = k.row(head),
                                                .a = a.row(head),
                                                .b = b.row(head),
                                                .r_stride = stride(r, 2),
                                                .decay_stride = stride(decay, 2),
                                                .k_stride = stride(k, 2),
                                                .a_stride = stride(a, 2),
                                                .b_stride = stride(b, 2),
                                                .v = v.row(head) + begin,
                                                .v_stride = stride(v, 2),
                                                .out = step.out.row(head) + begin,
                                                .out_stride = stride(step.out, 2),
                                                .before = offset(segment.before, at),
                                                .after = segment.after + at});
             });
}

}  // namespace

const OpKernel op_kernels::causal_conv{.run = run_causal_conv};
const OpKernel op_kernels::token_shift{.run = run_token_shift};
const OpKernel op_kernels::selective_scan{.run = run_selective_scan, .takes_all_threads = true};
const OpKernel op_kernels::delta_net{.run = run_delta_net, .takes_all_threads = true};
const OpKernel op_kernels::rwkv7{.run = run_rwkv7, .takes_all_threads = true};

}  // namespace tessera::cpu
