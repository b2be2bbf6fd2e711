// Gradients of recurrent layers. Channels, or heads of a sequence, are distributed over the threads. Gradients to which
// several values of a head contribute are summed in a fixed order by the thread that computes the head.
#include <algorithm>
#include <array>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cpu/ops/recurrent_segments.h"

namespace tessera::cpu {

namespace {

// Upper bound for the floats of a state per piece: with the states of a segment of tokens, a piece fits in a
// second-level cache.
constexpr int64_t kGradPieceElements = 1024;
// The maximum number of parts into which the heads of a group are divided. The parts' gradients of B and C are added at
// the end.
constexpr int64_t kMaxGroupParts = 16;

int64_t values_per_piece(int64_t n, int64_t n_values) {
  return std::clamp<int64_t>(kGradPieceElements / n, 1, n_values);
}

/// Bytes of scratch memory for one thread's piece: a multiple of a cache line.
size_t piece_bytes(const Kernels& kernels, int64_t n_tokens, int64_t n, int64_t n_values) {
  const size_t n_floats = kernels.recurrent_grad->scratch_floats(n_tokens, n, values_per_piece(n, n_values));
  return round_up(n_floats * sizeof(float), size_t{64});
}

float* piece_of(const Step& step, const Worker& worker, size_t bytes) {
  return reinterpret_cast<float*>(step.work + bytes * to_size(worker.thread.index));
}

/// Divides a flat result into one part per operand, in their order.
class Parts {
 public:
  explicit Parts(const Operand& out) : at_(out.row(0)) {}
  float* next(const Operand& x) {
    float* part = at_;
    at_ += x.shape().n_elements();
    return part;
  }

 private:
  float* at_;
};

/// Sets the whole result to zero, with a barrier at the end.
void clear(const Operand& out, Worker& worker) {
  const Range share = worker.share(out.shape().n_elements());
  std::fill(out.row(0) + share.begin, out.row(0) + share.end, 0.0f);
  worker.thread.barrier();
}

// Calls piece(segment) for all segments in order.
template <class Piece>
void for_segments(Worker& worker, const Segments& segments, Piece piece) {
  for (int64_t i = 0; i < segments.size(); ++i)
    if (const auto segment = segments.at(worker, i)) piece(*segment);
}

void run_causal_conv_grad(const Step& step, Worker& worker) {
  const Operand &x = step.in[0], &weight = step.in[1], &dy = step.in[4];
  const int64_t n = x.shape()[0], width = weight.shape()[0];
  const Segments segments(step, step.in[2], step.in[3], x.shape()[1]);
  Parts parts(step.out);
  float *d_x = parts.next(x), *d_weight = parts.next(weight);
  clear(step.out, worker);
  const Range share = worker.share(div_ceil<int64_t>(n, kConvChannels));
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t begin = i * kConvChannels, count = std::min<int64_t>(kConvChannels, n - begin);
    std::array<float, kConvWidth * kConvChannels> sums{};
    for_segments(worker, segments, [&](const Segment& segment) {
      worker.kernels.recurrent_grad->causal_conv({.tokens = segment.tokens.data(),
                                                  .n_tokens = static_cast<int64_t>(segment.tokens.size()),
                                                  .n_channels = count,
                                                  .width = width,
                                                  .x = x.row(0) + begin,
                                                  .x_stride = stride(x, 1),
                                                  .weight = weight.row(begin),
                                                  .before = offset(segment.before, begin),
                                                  .state_stride = n,
                                                  .dy = dy.row(0) + begin,
                                                  .dy_stride = stride(dy, 1),
                                                  .d_x = d_x + begin,
                                                  .d_x_stride = n,
                                                  .d_weight = sums.data()});
    });
    for (int64_t c = 0; c < count; ++c)
      for (int64_t tap = 0; tap < width; ++tap)
        d_weight[(begin + c) * width + tap] = sums[to_size(tap * kConvChannels + c)];
  }
}

// A token's output is the previous input minus its own. So the gradient of an input is the next token's dy minus its
// own.
void run_token_shift_grad(const Step& step, Worker& worker) {
  const Operand& dy = step.in[0];
  const Segments segments(step, step.in[1], step.in[2], dy.shape()[1]);
  const Range share = worker.share(div_ceil(dy.shape()[0], kGradPieceElements));
  const int64_t begin = share.begin * kGradPieceElements;
  const int64_t end = std::min(share.end * kGradPieceElements, dy.shape()[0]);
  for (int64_t t = 0; t < dy.shape()[1] && begin < end; ++t)
    std::fill(step.out.row(t) + begin, step.out.row(t) + end, 0.0f);
  for_segments(worker, segments, [&](const Segment& segment) {
    for (size_t i = 0; i < segment.tokens.size(); ++i) {
      const float* now = dy.row(segment.tokens[i]);
      const float* next = i + 1 < segment.tokens.size() ? dy.row(segment.tokens[i + 1]) : nullptr;
      float* out = step.out.row(segment.tokens[i]);
      for (int64_t c = begin; c < end; ++c) out[c] = (next == nullptr ? 0.0f : next[c]) - now[c];
    }
  });
}

/// The shapes of a scan, and the layout of the gradients of B and C of each part of a group.
struct ScanParts {
  explicit ScanParts(const Step& step)
      : n_heads(step.in[0].shape()[1]),
        n_state(step.in[3].shape()[0]),
        n_groups(step.in[3].shape()[1]),
        n_tokens(step.in[0].shape()[2]),
        head_dim(step.in[0].shape()[0]),
        heads_per_part(div_ceil(n_heads / n_groups, kMaxGroupParts)),
        parts_per_group(div_ceil(n_heads / n_groups, heads_per_part)) {}

  int64_t bc_elements() const { return n_state * n_groups * n_tokens; }
  size_t bc_bytes() const { return 2 * to_size(parts_per_group) * to_size(bc_elements()) * sizeof(float); }

  int64_t n_heads, n_state, n_groups, n_tokens, head_dim, heads_per_part, parts_per_group;
};

size_t selective_scan_grad_work_bytes(const Kernels& kernels, const Step& step) {
  const ScanParts s(step);
  return piece_bytes(kernels, s.n_tokens, s.n_state, s.head_dim) * to_size(step.n_threads) + s.bc_bytes();
}

class ScanRunner {
 public:
  ScanRunner(const Step& step, Worker& worker)
      : step_(step),
        worker_(worker),
        s_(step),
        scratch_bytes_(piece_bytes(worker.kernels, s_.n_tokens, s_.n_state, s_.head_dim)),
        d_b_(reinterpret_cast<float*>(step.work + scratch_bytes_ * to_size(step.n_threads))),
        d_c_(d_b_ + s_.parts_per_group * s_.bc_elements()) {}

  void run() {
    Parts parts(step_.out);
    d_x_ = parts.next(step_.in[0]);
    d_dt_ = parts.next(step_.in[1]);
    d_a_ = parts.next(step_.in[2]);
    float *d_b = parts.next(step_.in[3]), *d_c = parts.next(step_.in[4]);
    d_d_ = parts.next(step_.in[5]);
    const Range bc = worker_.share(2 * s_.parts_per_group * s_.bc_elements());
    std::fill(d_b_ + bc.begin, d_b_ + bc.end, 0.0f);
    clear(step_.out, worker_);
    const Range share = worker_.share(s_.n_groups * s_.parts_per_group);
    for (int64_t i = share.begin; i < share.end; ++i) add_part(i / s_.parts_per_group, i % s_.parts_per_group);
    worker_.thread.barrier();
    add_up(d_b_, d_b);
    add_up(d_c_, d_c);
  }

 private:
  void add_part(int64_t group, int64_t part) {
    const int64_t per_group = s_.n_heads / s_.n_groups;
    const int64_t first = part * s_.heads_per_part, end = std::min(first + s_.heads_per_part, per_group);
    const int64_t n_values = values_per_piece(s_.n_state, s_.head_dim);
    const Segments segments(step_, step_.in[6], step_.in[7], s_.n_tokens);
    for_segments(worker_, segments, [&](const Segment& segment) {
      for (int64_t head = group * per_group + first; head < group * per_group + end; ++head)
        for (int64_t begin = 0; begin < s_.head_dim; begin += n_values)
          add_values(segment, group, part, head, begin, std::min(n_values, s_.head_dim - begin));
    });
  }

  void add_values(const Segment& segment, int64_t group, int64_t part, int64_t head, int64_t begin, int64_t n_values) {
    const Operand &x = step_.in[0], &dt = step_.in[1], &a = step_.in[2], &b = step_.in[3], &c = step_.in[4],
                  &dy = step_.in[8];
    const int64_t bc = part * s_.bc_elements() + group * s_.n_state;
    worker_.kernels.recurrent_grad->selective_scan(
        {.tokens = segment.tokens.data(),
         .n_tokens = static_cast<int64_t>(segment.tokens.size()),
         .n_state = s_.n_state,
         .n_values = n_values,
         .x = x.row(head) + begin,
         .dy = dy.row(head) + begin,
         .x_stride = stride(x, 2),
         .dy_stride = stride(dy, 2),
         .dt = dt.row(0) + head,
         .dt_stride = stride(dt, 1),
         .a = a.row(head),
         .a_is_one = a.shape()[0] == 1,
         .b = b.row(group),
         .c = c.row(group),
         .b_stride = stride(b, 2),
         .c_stride = stride(c, 2),
         .d = step_.in[5].row(0)[head],
         .before = offset(segment.before, (head * s_.head_dim + begin) * s_.n_state),
         .d_x = d_x_ + head * s_.head_dim + begin,
         .d_x_stride = s_.head_dim * s_.n_heads,
         .d_dt = d_dt_ + head,
         .d_dt_stride = s_.n_heads,
         .d_a = d_a_ + head * a.shape()[0],
         .d_b = d_b_ + bc,
         .d_c = d_c_ + bc,
         .d_bc_stride = s_.n_state * s_.n_groups,
         .d_d = d_d_ + head,
         .scratch = piece_of(step_, worker_, scratch_bytes_)});
  }

  void add_up(const float* parts, float* out) {
    const Range share = worker_.share(s_.bc_elements());
    for (int64_t part = 0; part < s_.parts_per_group; ++part)
      for (int64_t i = share.begin; i < share.end; ++i) out[i] += parts[part * s_.bc_elements() + i];
  }

  const Step& step_;
  Worker& worker_;
  ScanParts s_;
  size_t scratch_bytes_;
  float *d_b_, *d_c_;  // [n_state, n_groups, n_tokens] for each part of the groups
  float *d_x_ = nullptr, *d_dt_ = nullptr, *d_a_ = nullptr, *d_d_ = nullptr;
};

void run_selective_scan_grad(const Step& step, Worker& worker) { ScanRunner(step, worker).run(); }

size_t delta_net_grad_work_bytes(const Kernels& kernels, const Step& step) {
  const Shape &k = step.in[1].shape(), &v = step.in[2].shape();
  return piece_bytes(kernels, v[2], k[0], v[0]) * to_size(step.n_threads);
}

// One thread computes a key head with all value heads that use it.
void run_delta_net_grad(const Step& step, Worker& worker) {
  const auto& params = std::get<DeltaNetParams>(step.node->params);
  const Operand &q = step.in[0], &k = step.in[1], &v = step.in[2], &decay = step.in[3], &beta = step.in[4],
                &dy = step.in[7];
  const int64_t k_dim = q.shape()[0], n_k = q.shape()[1], v_dim = v.shape()[0], n_heads = v.shape()[1];
  const int64_t n_tokens = v.shape()[2], n_values = values_per_piece(k_dim, v_dim);
  const Segments segments(step, step.in[5], step.in[6], n_tokens);
  Parts parts(step.out);
  float *d_q = parts.next(q), *d_k = parts.next(k), *d_v = parts.next(v), *d_decay = parts.next(decay),
        *d_beta = parts.next(beta);
  float* scratch = piece_of(step, worker, piece_bytes(worker.kernels, n_tokens, k_dim, v_dim));
  clear(step.out, worker);
  const auto add_values = [&](const Segment& segment, int64_t k_head, int64_t head, int64_t begin) {
    worker.kernels.recurrent_grad->delta_net({.tokens = segment.tokens.data(),
                                              .n_tokens = static_cast<int64_t>(segment.tokens.size()),
                                              .k_dim = k_dim,
                                              .n_values = std::min(n_values, v_dim - begin),
                                              .q = q.row(k_head),
                                              .k = k.row(k_head),
                                              .q_stride = stride(q, 2),
                                              .k_stride = stride(k, 2),
                                              .v = v.row(head) + begin,
                                              .dy = dy.row(head) + begin,
                                              .v_stride = stride(v, 2),
                                              .dy_stride = stride(dy, 2),
                                              .decay = decay.row(0) + head,
                                              .beta = beta.row(0) + head,
                                              .decay_stride = stride(decay, 1),
                                              .beta_stride = stride(beta, 1),
                                              .scale = params.scale,
                                              .before = offset(segment.before, (head * v_dim + begin) * k_dim),
                                              .d_q = d_q + k_head * k_dim,
                                              .d_k = d_k + k_head * k_dim,
                                              .d_qk_stride = k_dim * n_k,
                                              .d_v = d_v + head * v_dim + begin,
                                              .d_v_stride = v_dim * n_heads,
                                              .d_decay = d_decay + head,
                                              .d_beta = d_beta + head,
                                              .d_decay_stride = n_heads,
                                              .scratch = scratch});
  };
  const Range share = worker.share(segments.size() * n_k);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const auto segment = segments.at(worker, i / n_k);
    if (!segment) continue;
    const int64_t k_head = i % n_k, per_key = n_heads / n_k;
    for (int64_t j = 0; j < per_key; ++j) {
      const int64_t head = params.key_heads == KeyHeads::tiled ? j * n_k + k_head : k_head * per_key + j;
      for (int64_t begin = 0; begin < v_dim; begin += n_values) add_values(*segment, k_head, head, begin);
    }
  }
}

size_t rwkv7_grad_work_bytes(const Kernels& kernels, const Step& step) {
  const Shape& r = step.in[0].shape();
  return piece_bytes(kernels, r[2], r[0], r[0]) * to_size(step.n_threads);
}

void run_rwkv7_grad(const Step& step, Worker& worker) {
  const Operand &r = step.in[0], &decay = step.in[1], &k = step.in[2], &v = step.in[3], &a = step.in[4],
                &b = step.in[5], &dy = step.in[8];
  const int64_t dim = r.shape()[0], n_heads = r.shape()[1], n_tokens = r.shape()[2];
  const int64_t n_values = values_per_piece(dim, dim);
  const bool reads_before = std::get<Rwkv7Params>(step.node->params).read == StateRead::before;
  const Segments segments(step, step.in[6], step.in[7], n_tokens);
  std::array<float*, 6> d;
  Parts parts(step.out);
  for (size_t i = 0; i < d.size(); ++i) d[i] = parts.next(step.in[i]);
  float* scratch = piece_of(step, worker, piece_bytes(worker.kernels, n_tokens, dim, dim));
  clear(step.out, worker);
  const Range share = worker.share(segments.size() * n_heads);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const auto segment = segments.at(worker, i / n_heads);
    if (!segment) continue;
    const int64_t head = i % n_heads, at = head * dim;
    for (int64_t begin = 0; begin < dim; begin += n_values)
      worker.kernels.recurrent_grad->rwkv7({.tokens = segment->tokens.data(),
                                            .n_tokens = static_cast<int64_t>(segment->tokens.size()),
                                            .head_dim = dim,
                                            .n_values = std::min(n_values, dim - begin),
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
                                            .dy = dy.row(head) + begin,
                                            .v_stride = stride(v, 2),
                                            .dy_stride = stride(dy, 2),
                                            .before = offset(segment->before, (at + begin) * dim),
                                            .d_r = d[0] + at,
                                            .d_decay = d[1] + at,
                                            .d_k = d[2] + at,
                                            .d_v = d[3] + at + begin,
                                            .d_a = d[4] + at,
                                            .d_b = d[5] + at,
                                            .d_stride = dim * n_heads,
                                            .scratch = scratch});
  }
}

}  // namespace

const OpKernel op_kernels::causal_conv_grad{.run = run_causal_conv_grad, .takes_all_threads = true};
const OpKernel op_kernels::token_shift_grad{.run = run_token_shift_grad};
const OpKernel op_kernels::selective_scan_grad{.supports = nullptr,
                                               .work_bytes = selective_scan_grad_work_bytes,
                                               .run = run_selective_scan_grad,
                                               .takes_all_threads = true};
const OpKernel op_kernels::delta_net_grad{
    .work_bytes = delta_net_grad_work_bytes, .run = run_delta_net_grad, .takes_all_threads = true};
const OpKernel op_kernels::rwkv7_grad{
    .work_bytes = rwkv7_grad_work_bytes, .run = run_rwkv7_grad, .takes_all_threads = true};

}  // namespace tessera::cpu
