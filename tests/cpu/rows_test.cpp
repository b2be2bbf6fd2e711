// Operations on rows in graphs: lookups in a table, conversion of types, sums with a scale per row.
// rows_kernels_test.cpp checks the accuracy of the conversions.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tessera/base/half.h"
#include "tessera/base/index.h"
#include "tests/support/graph_runner.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

// --- get_rows, scatter_rows

TEST(Rows, GetRowsFromPanelsIsGetRowsFromPlainMemory) {
  const Shape shape{64, 37};
  const std::vector<int32_t> ids{36, 0, 15, 16, 31, 32, 5, 5};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    Rng rng(13);
    Bytes data(nbytes(dtype, shape).value());
    for (size_t i = 0; i < data.size(); ++i)  // small bit patterns, so that no float is infinite
      data[i] = static_cast<std::byte>(rng.next_u32() & 0x3b);
    std::vector<float> first;
    for (const bool is_packed : {false, true})
      for (const int n_threads : {1, 3}) {
        GraphRunner runner("", n_threads);
        const BufferType& type =
            is_packed ? runner.device().weight_buffer_type(Op::mul_mat, dtype, shape) : runner.device().buffer_type();
        const OwnedTensor table(type, "table", dtype, shape, data);
        GraphBuilder b;
        b.output(b.get_rows(b.tensor(table.tensor), b.input("ids", DType::i32, {8})), "y");
        ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(std::move(b).finish().value(), {{"ids", bytes_of(ids)}}));
        if (first.empty()) first = y;
        ASSERT_EQ(bytes_of(y), bytes_of(first)) << info(dtype).name;
        if (dtype != DType::f32) continue;
        for (size_t i = 0; i < ids.size(); ++i)
          ASSERT_EQ(0, std::memcmp(&y[i * 64], &data[static_cast<size_t>(ids[i]) * 256], 256));
      }
  }
}

TEST(Rows, GetRowsRefusesAnIdOutOfRange) {
  for (const int32_t bad : {-1, 37, 1 << 30}) {
    GraphRunner runner("", 2);
    GraphBuilder b;
    b.output(b.name(b.get_rows(b.input("t", DType::f32, {4, 37}), b.input("ids", DType::i32, {3})), "embd"), "y");
    const auto y = runner.run_y(std::move(b).finish().value(),
                                {{"t", Bytes(4 * 37 * 4)}, {"ids", bytes_of<int32_t>({0, bad, 36})}});
    EXPECT_ERROR(y, "row " + std::to_string(bad) + ", want 0 to 36");
    EXPECT_EQ(y.error().code(), ErrorCode::invalid_argument);
  }
}

TEST(Rows, GetRowsOfIntegersKeepsTheirBits) {
  // Bits of NaNs and of denormal floats are among them.
  std::vector<int32_t> table;
  for (int32_t i = 0; i < 37 * 5; ++i) table.push_back(i % 2 == 0 ? i : 0x7f800001 + i);
  table[3] = std::numeric_limits<int32_t>::min(), table[4] = -1;
  const std::vector<int32_t> ids{36, 0, 0, 17};
  std::vector<int32_t> expected;
  for (const int32_t id : ids) expected.insert(expected.end(), &table[to_size(id * 5)], &table[to_size(id * 5)] + 5);
  for (Setting& setting : all_settings())
    for (const bool is_tensor : {false, true}) {
      const Shape shape{5, 37};
      const OwnedTensor weight(setting.runner.device().weight_buffer_type(Op::get_rows, DType::i32, shape), "table",
                               DType::i32, shape, bytes_of(table));
      GraphBuilder b;
      const Value rows = is_tensor ? b.tensor(weight.tensor) : b.input("t", DType::i32, shape);
      b.output(b.get_rows(rows, b.input("ids", DType::i32, {4})), "y");
      ASSERT_OK_AND_ASSIGN(const auto y, setting.runner.run(std::move(b).finish().value(),
                                                            {{"t", bytes_of(table)}, {"ids", bytes_of(ids)}}));
      EXPECT_EQ(values_of<int32_t>(y.at("y")), expected);
    }
}

TEST(Rows, GetRowsOfIntegersRefusesAnIdOutOfRange) {
  for (const int32_t bad : {-1, 37}) {
    GraphBuilder b;
    b.output(b.get_rows(b.input("t", DType::i32, {4, 37}), b.input("ids", DType::i32, {3})), "y");
    EXPECT_ERROR(GraphRunner("", 2).run(std::move(b).finish().value(),
                                        {{"t", Bytes(4 * 37 * 4)}, {"ids", bytes_of<int32_t>({0, bad, 36})}}),
                 "row " + std::to_string(bad) + ", want 0 to 36");
  }
}

TEST(Rows, ARunAfterAFaultIsClean) {
  GraphRunner runner;
  GraphBuilder b;
  b.output(b.get_rows(b.input("t", DType::f32, {1, 2}), b.input("ids", DType::i32, {1})), "y");
  const Graph graph = std::move(b).finish().value();
  const Bytes table = bytes_of<float>({5, 6});
  EXPECT_ERROR(runner.run_y(graph, {{"t", table}, {"ids", bytes_of<int32_t>({2})}}), "row 2");
  ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(graph, {{"t", table}, {"ids", bytes_of<int32_t>({1})}}));
  EXPECT_EQ(y, (std::vector<float>{6}));
}

TEST(ScatterRows, AnIdOutOfRangeFailsTheRun) {
  const GraphRunner runner;
  for (const int32_t bad : {-1, 6}) {
    GraphBuilder b;
    b.output(b.scatter_rows(b.input("x", DType::f32, {40, 2}), b.input("ids", DType::i32, {2}), 6), "y");
    EXPECT_ERROR(runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(std::vector<float>(80))},
                                                              {"ids", bytes_of(std::vector<int32_t>{0, bad})}}),
                 "row " + std::to_string(bad) + ", want 0 to 5");
  }
}

// --- cast

TEST(Rows, CastRoundsToNearestAndBack) {
  Rng rng(17);
  const std::vector<float> x = random_values(rng, 64 * 9, 100.0f);
  const auto rounded = [](DType dtype, float v) {
    return dtype == DType::f16 ? f16_to_f32(f32_to_f16(v)) : dtype == DType::bf16 ? bf16_to_f32(f32_to_bf16(v)) : v;
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<double> expected;
    for (int64_t row = 0; row < 3; ++row)
      for (int64_t i = 0; i < 64; ++i) expected.push_back(rounded(dtype, x[static_cast<size_t>(row * 3 * 64 + i)]));
    run_everywhere(
        [&](const Device&) {
          GraphBuilder b;
          const Value all = b.input("x", DType::f32, {64, 9});
          const Value rows = b.view(all, {.shape = {64, 3}, .nb = {4, 768, 2304, 2304}}, 0);
          b.output(b.cast(b.cast(rows, dtype), DType::f32), "y");
          return std::move(b).finish().value();
        },
        {{"x", bytes_of(x)}}, [&](const auto& y) { expect_near(y, expected, 0); });
  }
}

TEST(Rows, CastToATypeWithoutEncoderIsUnsupported) {
  GraphRunner runner;
  GraphBuilder b;
  b.output(b.cast(b.input("x", DType::f32, {256}), DType::iq1_s), "y");
  EXPECT_ERROR(runner.run(std::move(b).finish().value(), {{"x", Bytes(1024)}}), "cpu cannot run cast x f32 [256]");
}

// --- add_scaled

using Floats = std::vector<float>;

TEST(AddScaled, ByHand) {
  GraphRunner runner;
  GraphBuilder b;
  const Value y = b.input("in", DType::f32, {2, 3}), s = b.input("s", DType::f32, {1, 3});
  b.output(b.add_scaled(y, b.input("d", DType::f32, {2, 3}), s, 0.5f), "rows");
  b.output(b.add_scaled(y, b.input("v", DType::f32, {2}), s), "vector");
  ASSERT_OK_AND_ASSIGN(const auto out,
                       runner.run(std::move(b).finish().value(), {{"in", bytes_of(Floats{1, 2, 3, 4, 5, 6})},
                                                                  {"s", bytes_of(Floats{2, 0, -1})},
                                                                  {"d", bytes_of(Floats{10, 20, 30, 40, 50, 60})},
                                                                  {"v", bytes_of(Floats{100, 200})}}));
  EXPECT_EQ(values_of<float>(out.at("rows")), (Floats{11, 22, 3, 4, -20, -24}));
  EXPECT_EQ(values_of<float>(out.at("vector")), (Floats{201, 402, 3, 4, -95, -194}));
}

TEST(AddScaled, RowsOfScaleZeroKeepTheirBitsWhateverIsAdded) {
  const Floats y = {-0.0f, kNaN, kInf, 1};
  GraphBuilder b;
  b.output(b.add_scaled(b.input("in", DType::f32, {4, 1}), b.input("d", DType::f32, {4, 1}),
                        b.input("s", DType::f32, {1, 1})),
           "y");
  const Graph graph = std::move(b).finish().value();
  for (const float scale : {0.0f, -0.0f}) {
    GraphRunner runner;
    ASSERT_OK_AND_ASSIGN(const auto out, runner.run_y(graph, {{"in", bytes_of(y)},
                                                              {"d", bytes_of(Floats{1, kInf, kNaN, kNaN})},
                                                              {"s", bytes_of(Floats{scale})}}));
    EXPECT_TRUE(same_bytes(out, y));
  }
}

TEST(AddScaled, IsTheSameForAnyNumberOfThreads) {
  Rng rng(3);
  for (const auto& [n, t] : {std::pair<int64_t, int64_t>{1, 1}, {100, 7}, {1024, 3}, {2500, 5}, {64, 0}}) {
    const Floats y = random_values(rng, n * t), d = random_values(rng, n * t);
    Floats s = random_values(rng, t);
    if (t > 1) s[1] = 0;
    std::vector<double> want;
    for (size_t i = 0; i < y.size(); ++i)
      want.push_back(double{y[i]} + double{s[i / static_cast<size_t>(n)]} * 0.75 * double{d[i]});
    const auto build = [n = n, t = t](const Device&) {
      GraphBuilder b;
      const Value in = b.input("in", DType::f32, {n, t});
      b.output(b.add_scaled(in, b.input("d", DType::f32, {n, t}), b.input("s", DType::f32, {1, t}), 0.75f), "y");
      return std::move(b).finish().value();
    };
    run_everywhere(build, {{"in", bytes_of(y)}, {"d", bytes_of(d)}, {"s", bytes_of(s)}},
                   [&](const Floats& out) { expect_near(out, want, 1e-6); });  // two roundings
  }
}

TEST(AddScaled, WithRoutesAPairHasItsTokensScale) {
  GraphRunner runner;
  GraphBuilder b;
  const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {2, 3}), 4);
  const Value y = b.input("in", DType::f32, {1, 6}), d = b.input("d", DType::f32, {1, 6});
  b.output(b.add_scaled(y, d, b.input("s", DType::f32, {1, 3}), 1.0f, routes), "y");
  // Rows are pairs 1, 2, 5, 0, 3, 4: of tokens 0, 1, 2, 0, 1, 2.
  ASSERT_OK_AND_ASSIGN(const auto out, runner.run_y(std::move(b).finish().value(),
                                                    {{"ids", bytes_of(std::vector<int32_t>{2, 0, 0, 2, 3, 0})},
                                                     {"in", bytes_of(Floats(6, 0.0f))},
                                                     {"d", bytes_of(Floats(6, 1.0f))},
                                                     {"s", bytes_of(Floats{10, 20, 30})}}));
  EXPECT_EQ(out, (Floats{10, 20, 30, 10, 20, 30}));
}

}  // namespace
}  // namespace tessera
