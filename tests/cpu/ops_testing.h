// Checks of row operations in graphs on the CPU: contiguous and strided rows, in place or not, any number of threads.
#pragma once

#include <functional>

#include "tests/support/graph_runner.h"

namespace tessera::testing {

/// A few roundings of f32 (2^-24 each), and exp() to a few ulp.
inline constexpr double kRowTolerance = 2e-6;
inline constexpr int64_t kStrides = 3;  ///< rows of x from one row of the strided view to the next

using Row = std::vector<double>;
using Unary = std::function<Value(GraphBuilder&, Value)>;
using RowReference = std::function<Row(const Row&)>;

/// Checks op on rows of n elements: contiguous, a view of every third row, in place, and with a later reader of x.
inline void check_rows(const Unary& op, const RowReference& reference, int64_t n, int64_t t, float limit) {
  Rng rng(static_cast<uint64_t>(n * 100 + t));
  const std::vector<float> x = random_values(rng, n * t * kStrides, limit);
  for (const bool is_strided : {false, true})
    for (const bool is_read_later : {false, true}) {
      std::vector<double> expected;
      for (int64_t row = 0; row < (is_strided ? t : t * kStrides); ++row) {
        const auto begin = x.begin() + row * n * (is_strided ? kStrides : 1);
        const Row out = reference(Row(begin, begin + n));
        expected.insert(expected.end(), out.begin(), out.end());
      }
      run_everywhere(
          [&](const Device&) {
            GraphBuilder b;
            const Value all = b.input("x", DType::f32, {n, t * kStrides});
            const int64_t nb = 4 * n * kStrides;
            const Value in = is_strided ? b.view(all, {.shape = {n, t}, .nb = {4, nb, nb * t, nb * t}}, 0) : all;
            b.output(op(b, in), "y");
            if (is_read_later) b.output(b.scale(all, 1.0f), "later");
            return std::move(b).finish().value();
          },
          {{"x", bytes_of(x)}}, [&](const std::vector<float>& y) { expect_near(y, expected, kRowTolerance); });
    }
}

/// Likewise for rows of one element and more, and for no rows.
inline void check_row_op(const Unary& op, const RowReference& reference, float limit = 4.0f) {
  for (const int64_t n : {1, 7, 64, 2049})
    for (const int64_t t : {0, 1, 5}) check_rows(op, reference, n, t, limit);
}

}  // namespace tessera::testing
