// Operations that move, repeat or sum elements: concat, transpose, sum_to, repeat, place. The elements of the result
// are distributed over the threads. Sums have the order of the operand.
#include "tessera/graph/ops/shape.h"
#include "tessera/base/index.h"

#include <algorithm>
#include <array>

#include "tessera/base/checked.h"
#include "tessera/cpu/ops/rows_decode.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

void run_concat(const Step& step, Worker& worker) {
  const Operand &a = step.in[0], &b = step.in[1];
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i) {
    float* end = std::copy_n(a.nth_row(i), a.shape()[0], step.out.nth_row(i));
    std::copy_n(b.nth_row(i), b.shape()[0], end);
  }
}

// --- transpose

// The tile that a thread transposes at a time: it fits in the first-level cache and has whole blocks of every dtype.
constexpr int64_t kTileRows = 64, kTileColumns = 256, kStripRows = 16;

bool supports_transpose(const Kernels& kernels, const Graph& graph, const Node& node) {
  return decoder_of(kernels, graph[node.sources[0]].spec.dtype) != nullptr;
}

// Transposes rows [row, row + n_rows) and columns [begin, begin + n) of matrix (i2, i3).
void transpose_tile(const Step& step, const Worker& worker, int64_t row, int64_t n_rows, int64_t begin, int64_t n,
                    int64_t i2, int64_t i3) {
  const Operand& x = step.in[0];
  const auto transpose = worker.kernels.transpose;
  const int64_t out_stride = step.out.layout.nb[1] / static_cast<int64_t>(sizeof(float));
  float* out = step.out.row(begin, i2, i3) + row;
  if (x.dtype == DType::f32) {
    transpose(x.row(row, i2, i3) + begin, x.layout.nb[1] / static_cast<int64_t>(sizeof(float)), n, n_rows, out,
              out_stride);
    return;
  }
  const Decode decode = decoder_of(worker.kernels, x.dtype);
  const auto offset = static_cast<int64_t>(*row_bytes(x.dtype, begin));
  std::array<float, to_size(kStripRows * kTileColumns)> strip;
  for (int64_t first = 0; first < n_rows; first += kStripRows) {
    const int64_t count = std::min(kStripRows, n_rows - first);
    for (int64_t i = 0; i < count; ++i)
      decode(x.row<const std::byte>(row + first + i, i2, i3) + offset, n, strip.data() + i * kTileColumns);
    transpose(strip.data(), kTileColumns, n, count, out + first, out_stride);
  }
}

void run_transpose(const Step& step, Worker& worker) {
  const Shape& shape = step.in[0].shape();
  const int64_t n_down = div_ceil(shape[1], kTileRows), n_across = div_ceil(shape[0], kTileColumns);
  const Range share = worker.share(n_down * n_across * shape[2] * shape[3]);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t row = i % n_down * kTileRows, column = i / n_down % n_across * kTileColumns;
    const int64_t matrix = i / n_down / n_across;
    transpose_tile(step, worker, row, std::min(kTileRows, shape[1] - row), column,
                   std::min(kTileColumns, shape[0] - column), matrix % shape[2], matrix / shape[2]);
  }
}

// --- sum_to, repeat

// The rows of the larger shape that correspond to row i of the smaller: along each outer dimension one row, or all.
struct RowBox {
  std::array<Range, 3> of;
};
RowBox rows_of(const Shape& large, const Shape& small, int64_t i) {
  RowBox box;
  for (int d = 1; d < kMaxRank; ++d) {
    const int64_t at = i % small[d];
    i /= small[d];
    box.of[to_size(d - 1)] = small[d] == large[d] ? Range{at, at + 1} : Range{0, large[d]};
  }
  return box;
}

template <class Row>
void for_rows(const RowBox& box, Row row) {
  for (int64_t i3 = box.of[2].begin; i3 < box.of[2].end; ++i3)
    for (int64_t i2 = box.of[1].begin; i2 < box.of[1].end; ++i2)
      for (int64_t i1 = box.of[0].begin; i1 < box.of[0].end; ++i1) row(i1, i2, i3);
}

// Computes columns [begin, begin + n) of row i of the result.
void sum_columns(const Step& step, const Worker& worker, int64_t i, int64_t begin, int64_t n) {
  const Operand& x = step.in[0];
  float* out = step.out.nth_row(i) + begin;
  std::fill_n(out, n, 0.0f);
  for_rows(rows_of(x.shape(), step.out.shape(), i),
           [&](int64_t i1, int64_t i2, int64_t i3) { worker.add(x.row(i1, i2, i3) + begin, n, out); });
}

void sum_rows(const Step& step, const Worker& worker) {
  const Operand& x = step.in[0];
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i) {
    float sum = 0.0f;
    for_rows(rows_of(x.shape(), step.out.shape(), i), [&](int64_t i1, int64_t i2, int64_t i3) {
      sum += worker.kernels.norm->row_sum(x.row(i1, i2, i3), x.shape()[0]);
    });
    *step.out.nth_row(i) = sum;
  }
}

void run_sum_to(const Step& step, Worker& worker) {
  constexpr int64_t kMostColumns = 1024;  // sums and operand columns fit in the first-level cache
  const Shape& out = step.out.shape();
  if (out[0] != step.in[0].shape()[0]) return sum_rows(step, worker);
  const int64_t fair = div_ceil<int64_t>(out.n_elements(), worker.thread.count);
  const int64_t n_columns = std::clamp(round_up(fair, kLineFloats), kLineFloats, kMostColumns);
  const int64_t per_row = div_ceil(out[0], n_columns);
  const Range share = worker.share(out.n_rows() * per_row);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t begin = i % per_row * n_columns;
    sum_columns(step, worker, i / per_row, begin, std::min(n_columns, out[0] - begin));
  }
}

void run_repeat(const Step& step, Worker& worker) {
  const Operand& x = step.in[0];
  const Shape &small = x.shape(), &out = step.out.shape();
  const Range share = worker.share(out.n_rows());
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t i1 = i % out[1], i2 = i / out[1] % out[2], i3 = i / out[1] / out[2];
    const float* row = x.row(small[1] == 1 ? 0 : i1, small[2] == 1 ? 0 : i2, small[3] == 1 ? 0 : i3);
    if (small[0] == out[0])
      std::copy_n(row, out[0], step.out.nth_row(i));
    else
      std::fill_n(step.out.nth_row(i), out[0], *row);
  }
}

// --- place

void run_place(const Step& step, Worker& worker) {
  const auto& params = std::get<PlaceParams>(step.node->params);
  float* out = step.out.row(0);
  const int64_t n_lines = div_ceil(step.out.shape().n_elements(), kLineFloats);
  const Range zeros = worker.share(n_lines);
  std::fill(out + zeros.begin * kLineFloats, out + std::min(zeros.end * kLineFloats, step.out.shape().n_elements()),
            0.0f);
  worker.thread.barrier();
  const Operand target{{DType::f32, params.at}, step.out.data + params.offset};
  const Range share = worker.share(target.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    std::copy_n(step.in[0].nth_row(i), target.shape()[0], target.nth_row(i));
}

}  // namespace

const OpKernel op_kernels::concat{.run = run_concat};
const OpKernel op_kernels::transpose{.supports = supports_transpose, .run = run_transpose};
const OpKernel op_kernels::sum_to{.run = run_sum_to, .takes_all_threads = true};
const OpKernel op_kernels::repeat{.run = run_repeat};
const OpKernel op_kernels::place{.run = run_place, .takes_all_threads = true};

}  // namespace tessera::cpu
