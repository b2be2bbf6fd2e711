// add, mul, scale, silu, sigmoid, swiglu: each element on its own, so threads share out pieces of rows.
#include <algorithm>
#include <cmath>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// A multiple of the vector width, and large enough to be worth handing out.
constexpr int64_t kPiece = 1024;

// piece(row, begin, n) for this thread's share of all rows' pieces.
template <class Piece>
void for_pieces(const Step& step, const Worker& worker, Piece piece) {
  const int64_t n = step.out.shape()[0];
  const int64_t per_row = std::max<int64_t>(div_ceil(n, kPiece), 1);
  const Range share = worker.share(step.out.shape().n_rows() * per_row);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t begin = i % per_row * kPiece;
    piece(i / per_row, begin, std::min(kPiece, n - begin));
  }
}

// Row i of `out` as a row of b, whose extents of 1 repeat.
const float* repeated_row(const Operand& b, const Shape& out, int64_t i) {
  const int64_t i1 = i % out[1], i2 = i / out[1] % out[2], i3 = i / out[1] / out[2];
  return b.row(b.shape()[1] == 1 ? 0 : i1, b.shape()[2] == 1 ? 0 : i2, b.shape()[3] == 1 ? 0 : i3);
}

using BinaryRow = void (*)(const float*, const float*, int64_t, float*);

void run_binary(const Step& step, const Worker& worker, BinaryRow row_kernel) {
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {
    row_kernel(step.in[0].nth_row(row) + begin, repeated_row(step.in[1], step.out.shape(), row) + begin, n,
               step.out.nth_row(row) + begin);
  });
}

void run_mul(const Step& step, Worker& worker) {
  if (step.in[1].shape()[0] == step.out.shape()[0]) return run_binary(step, worker, worker.kernels.mul);
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {  // one factor per row of b
    worker.kernels.scale(step.in[0].nth_row(row) + begin, *repeated_row(step.in[1], step.out.shape(), row), n,
                         step.out.nth_row(row) + begin);
  });
}

void run_scale(const Step& step, Worker& worker) {
  const float factor = std::get<ScaleParams>(step.node->params).factor;
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {
    worker.kernels.scale(step.in[0].nth_row(row) + begin, factor, n, step.out.nth_row(row) + begin);
  });
}

void run_silu(const Step& step, Worker& worker) {
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {
    worker.kernels.silu(step.in[0].nth_row(row) + begin, n, step.out.nth_row(row) + begin);
  });
}

// Of routers and scalar gates: a few values per token, so no vector kernel.
void run_sigmoid(const Step& step, Worker& worker) {
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {
    const float* x = step.in[0].nth_row(row) + begin;
    float* out = step.out.nth_row(row) + begin;
    for (int64_t i = 0; i < n; ++i) out[i] = 1.0f / (1.0f + std::exp(-x[i]));
  });
}

}  // namespace

extern const OpKernel kAdd, kMul, kScale, kSilu, kSigmoid, kSwiglu;
const OpKernel kAdd{.supports = nullptr, .work_bytes = nullptr, .run = [](const Step& step, Worker& worker) {
                      run_binary(step, worker, worker.kernels.add);
                    }};
const OpKernel kMul{.supports = nullptr, .work_bytes = nullptr, .run = run_mul};
const OpKernel kSwiglu{.supports = nullptr, .work_bytes = nullptr, .run = [](const Step& step, Worker& worker) {
                         run_binary(step, worker, worker.kernels.swiglu);
                       }};
const OpKernel kScale{.supports = nullptr, .work_bytes = nullptr, .run = run_scale};
const OpKernel kSilu{.supports = nullptr, .work_bytes = nullptr, .run = run_silu};
const OpKernel kSigmoid{.supports = nullptr, .work_bytes = nullptr, .run = run_sigmoid};

}  // namespace tessera::cpu
