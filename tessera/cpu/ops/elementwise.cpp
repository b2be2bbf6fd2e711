// Operations on each element by itself, of one or two operands: threads share out pieces of rows.
#include <algorithm>
#include <cmath>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// piece(row, begin, n) for this thread's share of all rows' pieces.
template <class Piece>
void for_pieces(const Step& step, const Worker& worker, Piece piece) {
  const int64_t n = step.out.shape()[0];
  const int64_t per_row = std::max<int64_t>(div_ceil(n, kPieceElements), 1);
  const Range share = worker.share(step.out.shape().n_rows() * per_row);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t begin = i % per_row * kPieceElements;
    piece(i / per_row, begin, std::min(kPieceElements, n - begin));
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

// row_kernel(x, n, out) on every piece.
template <class RowKernel>
void run_unary(const Step& step, const Worker& worker, RowKernel row_kernel) {
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {
    row_kernel(step.in[0].nth_row(row) + begin, n, step.out.nth_row(row) + begin);
  });
}

void run_scale(const Step& step, Worker& worker) {
  const float factor = std::get<ScaleParams>(step.node->params).factor;
  run_unary(step, worker, [&](const float* x, int64_t n, float* out) { worker.kernels.scale(x, factor, n, out); });
}

void run_soft_cap(const Step& step, Worker& worker) {
  const float cap = std::get<SoftCapParams>(step.node->params).cap;
  run_unary(step, worker, [&](const float* x, int64_t n, float* out) { worker.kernels.soft_cap(x, cap, n, out); });
}

void run_clamp(const Step& step, Worker& worker) {
  const auto [min, max] = std::get<ClampParams>(step.node->params);
  run_unary(step, worker, [&worker, lowest = min, highest = max](const float* x, int64_t n, float* out) {
    worker.kernels.clamp(x, lowest, highest, n, out);
  });
}

// Of a router's few scores: no vector kernel.
void run_sqrt(const Step& step, Worker& worker) {
  run_unary(step, worker, [](const float* x, int64_t n, float* out) {
    std::transform(x, x + n, out, [](float v) { return std::sqrt(v); });
  });
}

template <auto kKernel>
void run_with_one(const Step& step, Worker& worker) {
  run_unary(step, worker, worker.kernels.*kKernel);
}

template <auto kKernel>
void run_with_two(const Step& step, Worker& worker) {
  run_binary(step, worker, worker.kernels.*kKernel);
}

constexpr OpKernel kernel(void (*run)(const Step&, Worker&)) {
  return {.supports = nullptr, .work_bytes = nullptr, .run = run};
}

}  // namespace

extern const OpKernel kAdd, kMul, kDiv, kScale, kSilu, kSigmoid, kGelu, kReluSquared, kSoftCap, kClamp, kSqrt, kSwiglu,
    kGeglu, kSwigluOai;
const OpKernel kAdd = kernel(run_with_two<&Kernels::add>);
const OpKernel kMul = kernel(run_mul);
const OpKernel kDiv = kernel(run_with_two<&Kernels::div>);
const OpKernel kScale = kernel(run_scale);
const OpKernel kSilu = kernel(run_with_one<&Kernels::silu>);
const OpKernel kSigmoid = kernel(run_with_one<&Kernels::sigmoid>);
const OpKernel kGelu = kernel(run_with_one<&Kernels::gelu>);
const OpKernel kReluSquared = kernel(run_with_one<&Kernels::relu_squared>);
const OpKernel kSoftCap = kernel(run_soft_cap);
const OpKernel kClamp = kernel(run_clamp);
const OpKernel kSqrt = kernel(run_sqrt);
const OpKernel kSwiglu = kernel(run_with_two<&Kernels::swiglu>);
const OpKernel kGeglu = kernel(run_with_two<&Kernels::geglu>);
const OpKernel kSwigluOai = kernel(run_with_two<&Kernels::swiglu_oai>);

}  // namespace tessera::cpu
