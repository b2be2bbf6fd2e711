// Operations that move, repeat or sum elements, in graphs: every type, gaps between rows, and reused memory.
#include <gtest/gtest.h>

#include "tessera/quant/formats.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

TEST(Shape, ConcatPutsRowsBehindRows) {
  Rng rng(1);
  for (const int64_t n_tokens : {0, 1, 5}) {
    const std::vector<float> a = random_values(rng, 3 * 2 * n_tokens), c = random_values(rng, 4 * n_tokens);
    std::vector<double> expected;
    for (int64_t t = 0; t < n_tokens; ++t)
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t i = 0; i < 3; ++i) expected.push_back(a[static_cast<size_t>((t * 2 + h) * 3 + i)]);
        for (int64_t i = 0; i < 4; ++i)
          expected.push_back(c[static_cast<size_t>(t * 4 + i)]);  // the same for both heads
      }
    run_everywhere(
        [&](const Device&) {
          GraphBuilder b;
          const Value same = b.view(b.input("c", DType::f32, {4, n_tokens}),
                                    {.shape = {4, 2, n_tokens}, .nb = {4, 0, 16, 16 * n_tokens}}, 0);
          b.output(b.concat(b.input("a", DType::f32, {3, 2, n_tokens}), same), "y");
          return std::move(b).finish().value();
        },
        {{"a", bytes_of(a)}, {"c", bytes_of(c)}}, [&](const auto& y) { expect_near(y, expected, 0); });
  }
}

// Results are in memory of an earlier value, of which nothing may remain.
TEST(Reshaping, ResultsDoNotKeepWhatTheirMemoryHeld) {
  using Build = Value (*)(GraphBuilder&, Value row, Value ids);
  const Build builds[] = {
      [](GraphBuilder& b, Value row, Value) {
        return b.place(row, {.shape = {64, 60}, .at = b.spec(row).layout, .offset = 256});
      },
      [](GraphBuilder& b, Value row, Value ids) { return b.scatter_rows(row, ids, 60); },
      [](GraphBuilder& b, Value row, Value) {
        return b.sum_to(b.repeat(row, {64, 60, 2}), {64, 60});
      },
  };
  Rng rng(9);
  const std::vector<float> x = random_values(rng, 64 * 64);
  for (const Build& build : builds) {
    const auto graph = [&](const Device&) {
      GraphBuilder b;
      // All of x but its first row is dead when the result is made.
      const Value large = b.scale(b.input("x", DType::f32, {64, 64}), 1.0f);
      const Value row = b.cast(b.view(large, {.shape = {64, 1}, .nb = {4, 256, 256, 256}}, 0), DType::f32);
      b.output(build(b, row, b.input("ids", DType::i32, {1})), "y");
      return std::move(b).finish().value();
    };
    run_everywhere(graph, {{"x", bytes_of(x)}, {"ids", bytes_of(std::vector<int32_t>{1})}},
                   [&](const std::vector<float>& y) {
                     for (size_t i = 0; i < y.size(); ++i) {
                       const bool is_repeated = &build == &builds[2];
                       const float want = is_repeated ? 2 * x[i % 64] : i / 64 == 1 ? x[i % 64] : 0.0f;
                       ASSERT_EQ(y[i], want) << "at " << i;
                     }
                   });
  }
}

// Sizes around the tiles of threads and vectors, with gaps between rows.
TEST(Transpose, OfRowsWithGaps) {
  Rng rng(10);
  for (const auto& [n, n_rows] : {std::pair<int64_t, int64_t>{1, 1}, {300, 70}, {257, 16}, {16, 129}, {5, 3}}) {
    const std::vector<float> x = random_values(rng, (n + 4) * n_rows * 2);
    run_everywhere(
        [n = n, n_rows = n_rows](const Device&) {
          GraphBuilder b;
          const Value whole = b.input("x", DType::f32, {n + 4, n_rows, 2});
          b.output(b.transpose(b.view(whole, {.shape = {n, n_rows, 2}, .nb = b.spec(whole).layout.nb}, 12)), "y");
          return std::move(b).finish().value();
        },
        {{"x", bytes_of(x)}},
        [&, n = n, n_rows = n_rows](const std::vector<float>& y) {
          for (int64_t i = 0; i < std::ssize(y); ++i) {
            const int64_t row = i % n_rows, column = i / n_rows % n, matrix = i / n_rows / n;
            ASSERT_EQ(y[static_cast<size_t>(i)], x[static_cast<size_t>((matrix * n_rows + row) * (n + 4) + column + 3)])
                << "at " << i;
          }
        });
  }
}

TEST(Transpose, DecodesEveryType) {
  constexpr int64_t kColumns = 512, kRows = 37;
  Rng rng(11);
  const std::vector<float> values = random_values(rng, kColumns * kRows);
  int n_types = 0;
  for (const DTypeInfo& type : all_dtypes()) {
    const DType dtype = type.dtype;
    const quant::Format* format = quant::find_format(dtype);
    if (format == nullptr) continue;
    ++n_types;
    testing::Bytes bytes(nbytes(dtype, {kColumns, kRows}).value());
    std::vector<float> decoded(values.size());
    for (int64_t row = 0; row < kRows; ++row) {
      std::byte* at = bytes.data() + static_cast<size_t>(row) * row_bytes(dtype, kColumns).value();
      format->quantize_row_compat(values.data() + row * kColumns, nullptr, kColumns, at);
      format->dequantize_row(at, kColumns, decoded.data() + row * kColumns);
    }
    for (const Setting& setting : all_settings()) {
      if (setting.n_threads == 2) continue;
      const OwnedTensor x(setting.runner.device().buffer_type(), "x", dtype, {kColumns, kRows}, bytes);
      GraphBuilder b;
      b.output(b.transpose(b.tensor(x.tensor)), "y");
      const auto y = setting.runner.run_y(std::move(b).finish().value(), {});
      ASSERT_OK(y);
      for (int64_t i = 0; i < kColumns * kRows; ++i)
        ASSERT_EQ((*y)[static_cast<size_t>(i)], decoded[static_cast<size_t>(i % kRows * kColumns + i / kRows)])
            << type.name << " on " << setting.isa << " at " << i;
    }
  }
  EXPECT_GT(n_types, 20);
}

}  // namespace
}  // namespace tessera
