// Norms, softmax and sums. One thread computes a whole row, so that its sums have a fixed order. For sum_squares, one
// thread computes a whole column.
#include <algorithm>
#include <array>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

void run_rms_norm(const Step& step, Worker& worker) {
  const float eps = std::get<NormParams>(step.node->params).eps;
  const float* weight = step.in[1].present() ? step.in[1].row(0) : nullptr;
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.norm->rms_norm(step.in[0].nth_row(i), weight, step.out.shape()[0], eps, step.out.nth_row(i));
}

void run_layer_norm(const Step& step, Worker& worker) {
  const float eps = std::get<NormParams>(step.node->params).eps;
  const float* weight = step.in[1].present() ? step.in[1].row(0) : nullptr;
  const float* bias = step.in[2].present() ? step.in[2].row(0) : nullptr;
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.norm->layer_norm(step.in[0].nth_row(i), weight, bias, step.out.shape()[0], eps, step.out.nth_row(i));
}

void run_soft_max(const Step& step, Worker& worker) {
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.norm->soft_max(step.in[0].nth_row(i), step.out.shape()[0], step.out.nth_row(i));
}

void run_l2_norm(const Step& step, Worker& worker) {
  const float eps = std::get<NormParams>(step.node->params).eps;
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.norm->l2_norm(step.in[0].nth_row(i), step.out.shape()[0], eps, step.out.nth_row(i));
}

void run_row_sum(const Step& step, Worker& worker) {
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    *step.out.nth_row(i) = worker.kernels.norm->row_sum(step.in[0].nth_row(i), step.in[0].shape()[0]);
}

// --- sum_squares: pieces of columns are distributed over threads, and each column is summed in the order of rows

// Columns of a piece: a multiple of a cache line, and a constant, so that the compiler vectorizes the loop.
constexpr int64_t kSumColumns = 64;

void run_sum_squares(const Step& step, Worker& worker) {
  const Operand& x = step.in[0];
  const int64_t n = x.shape()[0], n_rows = x.shape().n_rows();
  const Range share = worker.share(div_ceil(n, kSumColumns));
  for (int64_t piece = share.begin; piece < share.end; ++piece) {
    const int64_t begin = piece * kSumColumns, count = std::min(kSumColumns, n - begin);
    std::array<float, kSumColumns> sums{};
    for (int64_t row = 0; row < n_rows; ++row) {
      const float* values = x.nth_row(row) + begin;
      if (count == kSumColumns) {
        for (size_t i = 0; i < kSumColumns; ++i) sums[i] += values[i] * values[i];
      } else {
        for (int64_t i = 0; i < count; ++i) sums[to_size(i)] += values[i] * values[i];
      }
    }
    std::copy_n(sums.begin(), count, step.out.row(0) + begin);
  }
}

}  // namespace

const OpKernel op_kernels::rms_norm{.run = run_rms_norm};
const OpKernel op_kernels::layer_norm{.run = run_layer_norm};
const OpKernel op_kernels::soft_max{.run = run_soft_max};
const OpKernel op_kernels::l2_norm{.run = run_l2_norm};
const OpKernel op_kernels::row_sum{.run = run_row_sum};
const OpKernel op_kernels::sum_squares{.run = run_sum_squares, .takes_all_threads = true};

}  // namespace tessera::cpu
