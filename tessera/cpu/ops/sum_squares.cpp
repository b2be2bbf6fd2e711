// sum_squares: threads share out pieces of columns, and each column's sum goes through the rows in their order.
#include <algorithm>
#include <array>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// Columns of a piece: a multiple of a cache line, and a constant, so that the compiler makes vectors of the loop.
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
        for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += values[i] * values[i];
      }
    }
    std::copy_n(sums.begin(), count, step.out.row(0) + begin);
  }
}

}  // namespace

extern const OpKernel kSumSquares;
const OpKernel kSumSquares{
    .supports = nullptr, .work_bytes = nullptr, .run = run_sum_squares, .takes_all_threads = true};

}  // namespace tessera::cpu
