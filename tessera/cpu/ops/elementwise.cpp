// Elementwise operations with one or two operands. Pieces of rows are distributed over the threads.
#include "tessera/graph/ops/elementwise.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"
#include "tessera/graph/op_info.h"

namespace tessera::cpu {

namespace {

constexpr size_t kMaxNumbers = 4;  // parameters of one operation

std::array<float, kMaxNumbers> numbers_of(const OpParams& params) {
  std::array<float, kMaxNumbers> numbers{};
  const ParamList list = list_params(params);
  for (size_t i = 0; i < std::min(kMaxNumbers, list.all().size()); ++i)
    numbers[i] = static_cast<float>(list.all()[i].number);
  return numbers;
}

// Calls piece(row, begin, n) for this thread's share of the pieces of all rows.
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

// Returns the row of b for row i of `out`; b is repeated along extents of 1.
const float* repeated_row(const Operand& b, const Shape& out, int64_t i) {
  const int64_t i1 = i % out[1], i2 = i / out[1] % out[2], i3 = i / out[1] / out[2];
  return b.row(b.shape()[1] == 1 ? 0 : i1, b.shape()[2] == 1 ? 0 : i2, b.shape()[3] == 1 ? 0 : i3);
}

void run_unary(const Step& step, Worker& worker, Elementwise op, const float* numbers) {
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {
    worker.run(op,
               {.a = step.in[0].nth_row(row) + begin, .params = numbers, .n = n, .out = step.out.nth_row(row) + begin});
  });
}

void run_binary(const Step& step, Worker& worker, Elementwise op, const float* numbers) {
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {
    worker.run(op, {.a = step.in[0].nth_row(row) + begin,
                    .b = repeated_row(step.in[1], step.out.shape(), row) + begin,
                    .params = numbers,
                    .n = n,
                    .out = step.out.nth_row(row) + begin});
  });
}

// mul with one factor per row of b.
void run_row_factors(const Step& step, Worker& worker) {
  for_pieces(step, worker, [&](int64_t row, int64_t begin, int64_t n) {
    worker.run(Elementwise::scale, {.a = step.in[0].nth_row(row) + begin,
                                    .params = repeated_row(step.in[1], step.out.shape(), row),
                                    .n = n,
                                    .out = step.out.nth_row(row) + begin});
  });
}

template <Elementwise kOp, int kOperands, class Params>
void run_elementwise(const Step& step, Worker& worker) {
  if constexpr (kOp == Elementwise::mul)
    if (step.in[1].shape()[0] != step.out.shape()[0]) return run_row_factors(step, worker);
  std::array<float, kMaxNumbers> numbers{};
  if constexpr (!std::is_same_v<Params, NoParams>) numbers = numbers_of(step.node->params);
  if constexpr (kOperands == 1) return run_unary(step, worker, kOp, numbers.data());
  return run_binary(step, worker, kOp, numbers.data());
}

}  // namespace

#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) \
  const OpKernel op_kernels::name{.run = run_elementwise<Elementwise::name, n_operands, parameters>};
#include "tessera/graph/ops.def"

}  // namespace tessera::cpu
