// The element-wise, row-wise and lookup operations as graphs: strides, repetition, empty dimensions, in place or not,
// any number of threads. How exact each kernel is, elementwise_kernels_test.cpp and convert_kernels_test.cpp check.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <tuple>

#include "tessera/base/half.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

// A few roundings of f32 (2^-24 each), and exp() to a few ulp.
constexpr double kTolerance = 2e-6;
constexpr int64_t kStrides = 3;  // rows of x from one row of the strided view to the next

using Row = std::vector<double>;
using Unary = std::function<Value(GraphBuilder&, Value)>;
using RowReference = std::function<Row(const Row&)>;

/// Checks op on rows of n elements: contiguous, a view of every third row, in place, and beside a later reader.
void check_rows(const Unary& op, const RowReference& reference, int64_t n, int64_t t, float limit) {
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
          {{"x", bytes_of(x)}}, [&](const std::vector<float>& y) { expect_near(y, expected, kTolerance); });
    }
}

void check_row_op(const Unary& op, const RowReference& reference, float limit = 4.0f) {
  for (const int64_t n : {1, 7, 64, 2049})
    for (const int64_t t : {0, 1, 5}) check_rows(op, reference, n, t, limit);
}

TEST(CpuOps, Silu) {
  check_row_op([](auto& b, Value x) { return b.silu(x); },
               [](Row x) {
                 for (double& v : x) v = v / (1 + std::exp(-v));
                 return x;
               });
}

TEST(CpuOps, Scale) {
  check_row_op([](auto& b, Value x) { return b.scale(x, -1.5f); },
               [](Row x) {
                 for (double& v : x) v *= -1.5;
                 return x;
               });
}

/// An op that treats each element by itself.
void check_element_op(const Unary& op, double (*reference)(double)) {
  check_row_op(op, [=](Row x) {
    for (double& v : x) v = reference(v);
    return x;
  });
}

TEST(CpuOps, ElementsByThemselves) {
  check_element_op([](auto& b, Value x) { return b.sigmoid(x); }, [](double v) { return 1 / (1 + std::exp(-v)); });
  check_element_op([](auto& b, Value x) { return b.gelu(x); },
                   [](double v) { return v / 2 * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))); });
  check_element_op([](auto& b, Value x) { return b.relu_squared(x); }, [](double v) { return v > 0 ? v * v : 0; });
  check_element_op([](auto& b, Value x) { return b.soft_cap(x, 2.5f); },
                   [](double v) { return 2.5 * std::tanh(v / 2.5); });
  check_element_op([](auto& b, Value x) { return b.clamp(x, -1.0f, 2.0f); },
                   [](double v) { return std::clamp(v, -1.0, 2.0); });
  check_element_op([](auto& b, Value x) { return b.sqrt(b.relu_squared(x)); }, [](double v) { return v > 0 ? v : 0; });
}

TEST(CpuOps, SoftMax) {
  check_row_op([](auto& b, Value x) { return b.soft_max(x); },
               [](Row x) {
                 const double max = *std::ranges::max_element(x);
                 double sum = 0;
                 for (double& v : x) sum += v = std::exp(v - max);
                 for (double& v : x) v /= sum;
                 return x;
               });
}

TEST(CpuOps, RmsNorm) {
  check_row_op([](auto& b, Value x) { return b.rms_norm(x, Value(), 1e-5f); },
               [](Row x) {
                 double sum = 0;
                 for (const double v : x) sum += v * v;
                 for (double& v : x) v /= std::sqrt(sum / static_cast<double>(x.size()) + 1e-5f);
                 return x;
               });
}

TEST(CpuOps, RmsNormMultipliesByItsWeight) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.rms_norm(b.input("x", DType::f32, {2, 2}), b.input("w", DType::f32, {2}), 0.0f), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of<float>({1, 7, -3, 3})}, {"w", bytes_of<float>({10, 20})}},  // root mean squares 5 and 3
      [](const auto& y) {
        expect_near(y, {2, 28, -10, 20}, kTolerance);
      });
}

TEST(CpuOps, LayerNorm) {
  check_row_op([](auto& b, Value x) { return b.layer_norm(x, Value(), Value(), 1e-2f); },
               [](Row x) {
                 const auto n = static_cast<double>(x.size());
                 double mean = 0, variance = 0;
                 for (const double v : x) mean += v / n;
                 for (const double v : x) variance += (v - mean) * (v - mean) / n;
                 for (double& v : x) v = (v - mean) / std::sqrt(variance + double{1e-2f});
                 return x;
               });
}

TEST(CpuOps, LayerNormHasAWeightABiasOrBoth) {
  const NamedBytes inputs{{"x", bytes_of<float>({1, 7, -3, 3})},  // mean 4 and deviation 3; 0 and 3
                          {"w", bytes_of<float>({10, 20})},
                          {"b", bytes_of<float>({0.5f, -0.5f})}};
  for (const auto& [has_weight, has_bias, expected] :
       std::vector<std::tuple<bool, bool, std::vector<double>>>{{true, false, {-10, 20, -10, 20}},
                                                                {false, true, {-0.5, 0.5, -0.5, 0.5}},
                                                                {true, true, {-9.5, 19.5, -9.5, 19.5}}})
    run_everywhere(
        [&](const Device&) {
          GraphBuilder g;
          const Value x = g.input("x", DType::f32, {2, 2}), w = g.input("w", DType::f32, {2}),
                      b = g.input("b", DType::f32, {2});
          g.output(g.layer_norm(x, has_weight ? w : Value(), has_bias ? b : Value(), 0.0f), "y");
          return std::move(g).finish().value();
        },
        inputs, [&](const auto& y) { expect_near(y, expected, kTolerance); });
}

// --- two operands

struct BinaryCase {
  Shape a, b;
};

void check_binary(const std::function<Value(GraphBuilder&, Value, Value)>& op, double (*reference)(double, double),
                  const std::vector<BinaryCase>& cases) {
  for (const BinaryCase& c : cases) {
    Rng rng(7);
    const std::vector<float> a = random_values(rng, c.a.n_elements(), 3.0f),
                             b = random_values(rng, c.b.n_elements(), 3.0f);
    std::vector<double> expected;
    for (int64_t i3 = 0; i3 < c.a[3]; ++i3)
      for (int64_t i2 = 0; i2 < c.a[2]; ++i2)
        for (int64_t i1 = 0; i1 < c.a[1]; ++i1)
          for (int64_t i0 = 0; i0 < c.a[0]; ++i0) {
            const int64_t ia = i0 + c.a[0] * (i1 + c.a[1] * (i2 + c.a[2] * i3));
            const int64_t ib = i0 % c.b[0] + c.b[0] * (i1 % c.b[1] + c.b[1] * (i2 % c.b[2] + c.b[2] * (i3 % c.b[3])));
            expected.push_back(reference(a[static_cast<size_t>(ia)], b[static_cast<size_t>(ib)]));
          }
    run_everywhere(
        [&](const Device&) {
          GraphBuilder g;
          g.output(op(g, g.input("a", DType::f32, c.a), g.input("b", DType::f32, c.b)), "y");
          return std::move(g).finish().value();
        },
        {{"a", bytes_of(a)}, {"b", bytes_of(b)}}, [&](const auto& y) { expect_near(y, expected, kTolerance); });
  }
}

const std::vector<BinaryCase> kSameOrRepeatedRows{
    {{7}, {7}},   {{7, 5}, {7, 5}}, {{1500, 3}, {1500}}, {{8, 3, 2}, {8, 1, 2}}, {{8, 3, 2, 2}, {8, 3, 1, 2}},
    {{8, 0}, {8}}};

TEST(CpuOps, AddRepeatsItsSecondOperand) {
  check_binary([](auto& b, Value x, Value y) { return b.add(x, y); }, [](double x, double y) { return x + y; },
               kSameOrRepeatedRows);
}

TEST(CpuOps, MulRepeatsItsSecondOperand) {
  std::vector<BinaryCase> cases = kSameOrRepeatedRows;
  cases.insert(cases.end(), {{{1500, 3}, {1}}, {{8, 3, 2}, {1, 3}}, {{8, 3, 2}, {1, 1, 2}}, {{1, 3}, {1, 3}}});
  check_binary([](auto& b, Value x, Value y) { return b.mul(x, y); }, [](double x, double y) { return x * y; }, cases);
}

TEST(CpuOps, DivRepeatsItsSecondOperand) {
  check_binary([](auto& b, Value x, Value y) { return b.div(x, b.add(b.relu_squared(y), b.sigmoid(y))); },
               [](double x, double y) { return x / ((y > 0 ? y * y : 0) + 1 / (1 + std::exp(-y))); },
               kSameOrRepeatedRows);
}

TEST(CpuOps, OtherGatesOfEachElement) {
  const std::vector<BinaryCase> cases{{{7}, {7}}, {{1500, 3}, {1500, 3}}, {{8, 0}, {8, 0}}};
  check_binary(
      [](auto& b, Value x, Value y) { return b.geglu(x, y); },
      [](double x, double y) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) * y; },
      cases);
  check_binary([](auto& b, Value x, Value y) { return b.swiglu_oai(x, y); },
               [](double x, double y) { return x / (1 + std::exp(-1.702 * x)) * (y + 1); },
               cases);  // below the bound of 7
}

TEST(CpuOps, SwigluGatesEachElement) {
  check_binary([](auto& b, Value x, Value y) { return b.swiglu(x, y); },
               [](double x, double y) { return x / (1 + std::exp(-x)) * y; },
               {{{7}, {7}}, {{1500, 3}, {1500, 3}}, {{8, 0}, {8, 0}}});
}

TEST(CpuOps, AValueMayBeBothOperands) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        const Value x = b.input("x", DType::f32, {3});
        b.output(b.mul(b.add(x, x), x), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of<float>({1, 2, -3})}},
      [](const auto& y) {
        expect_near(y, {2, 8, 18}, 0);
      });
}

// --- sum_squares

TEST(CpuOps, SumSquaresSumsEachColumn) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.sum_squares(b.input("x", DType::f32, {2, 3})), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of<float>({1, 2, -3, 0, 5, 0.5f})}},
      [](const auto& y) {
        expect_near(y, {35, 4.25}, 0);
      });
}

TEST(CpuOps, SumSquaresOfAnyShape) {
  for (const int64_t n : {1, 63, 64, 65, 300})
    for (const int64_t t : {0, 1, 7, 500})
      for (const bool is_strided : {false, true}) {
        Rng rng(static_cast<uint64_t>(n * 1000 + t));
        const std::vector<float> x = random_values(rng, n * t * kStrides, 4.0f);
        std::vector<double> expected(static_cast<size_t>(n));
        for (int64_t row = 0; row < t * kStrides; row += is_strided ? kStrides : 1)
          for (int64_t i = 0; i < n; ++i)
            expected[static_cast<size_t>(i)] += std::pow(static_cast<double>(x[static_cast<size_t>(row * n + i)]), 2);
        run_everywhere(
            [&](const Device&) {
              GraphBuilder b;
              const Value all = b.input("x", DType::f32, {n, t * kStrides});
              const int64_t nb = 4 * n * kStrides;
              b.output(
                  b.sum_squares(is_strided ? b.view(all, {.shape = {n, t}, .nb = {4, nb, nb * t, nb * t}}, 0) : all),
                  "y");
              return std::move(b).finish().value();
            },
            {{"x", bytes_of(x)}},
            // Up to 1500 positive terms, each addition rounded to 2^-24.
            [&](const auto& y) { expect_near(y, expected, 1e-4); });
      }
}

// 1 + 2^-24 is 1: from the first row on, small terms are lost; from the last row on, they would not be.
TEST(CpuOps, SumSquaresAddsInTheOrderOfTheRows) {
  std::vector<float> x(70 * 4097, 1.0f / 4096);
  std::fill_n(x.begin(), 70, 1.0f);
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.sum_squares(b.input("x", DType::f32, {70, 4097})), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of(x)}}, [](const auto& y) { expect_near(y, std::vector<double>(70, 1.0), 0); });
}

// --- rope

TEST(CpuOps, RopeTableAndRope) {
  const std::vector<int32_t> positions{0, 1, 100, 3000};
  for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::halves})
    for (const int64_t n_rot : {8, 12}) {
      const int64_t dim = 12, n_heads = 3;
      Rng rng(11);
      const std::vector<float> x = random_values(rng, dim * n_heads * 4), factors{1, 2, 1, 4, 1, 0.5f};
      std::vector<double> expected(x.begin(), x.end());
      for (int64_t t = 0; t < 4; ++t)
        for (int64_t h = 0; h < n_heads; ++h)
          for (int64_t i = 0; i < n_rot / 2; ++i) {
            const double angle = positions[static_cast<size_t>(t)] * 0.25 / factors[static_cast<size_t>(i)] *
                                 std::pow(500.0, -2.0 * static_cast<double>(i) / static_cast<double>(n_rot));
            const int64_t head = (t * n_heads + h) * dim;
            const auto p = static_cast<size_t>(head + (pairs == RopePairs::adjacent ? 2 * i : i));
            const auto q = p + static_cast<size_t>(pairs == RopePairs::adjacent ? 1 : n_rot / 2);
            expected[p] = (x[p] * std::cos(angle) - x[q] * std::sin(angle)) * 1.5;
            expected[q] = (x[p] * std::sin(angle) + x[q] * std::cos(angle)) * 1.5;
          }
      run_everywhere(
          [&](const Device&) {
            GraphBuilder b;
            const Value table =
                b.rope_table(b.input("positions", DType::i32, {4}), b.input("factors", DType::f32, {n_rot / 2}),
                             {.n_rot = n_rot, .freq_base = 500.0f, .freq_scale = 0.25f, .magnitude = 1.5f});
            b.output(b.rope(b.input("x", DType::f32, {dim, n_heads, 4}), table, pairs), "y");
            return std::move(b).finish().value();
          },
          {{"positions", bytes_of(positions)},
           {"factors", bytes_of(std::vector<float>(factors.begin(), factors.begin() + n_rot / 2))},
           {"x", bytes_of(x)}},
          [&](const auto& y) { expect_near(y, expected, kTolerance); });
    }
}

// n_rot 4: pair 0 extrapolates (ramp 1), pair 1 interpolates (ramp 0).
TEST(CpuOps, RopeTableMixesAnglesForYarn) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(
            b.rope_table(
                b.input("p", DType::i32, {1}), Value(),
                {.n_rot = 4, .freq_base = 100.0f, .freq_scale = 0.5f, .yarn_ext = 1, .yarn_low = 0, .yarn_high = 1}),
            "y");
        return std::move(b).finish().value();
      },
      {{"p", bytes_of<int32_t>({3})}},
      [](const auto& y) {
        expect_near(y, {std::cos(3.0), std::sin(3.0), std::cos(0.15), std::sin(0.15)}, kTolerance);
      });
}

// --- get_rows, cast

TEST(CpuOps, GetRowsFromPanelsIsGetRowsFromPlainMemory) {
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

TEST(CpuOps, GetRowsRefusesAnIdOutOfRange) {
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

TEST(CpuOps, ARunAfterAFaultIsClean) {
  GraphRunner runner;
  GraphBuilder b;
  b.output(b.get_rows(b.input("t", DType::f32, {1, 2}), b.input("ids", DType::i32, {1})), "y");
  const Graph graph = std::move(b).finish().value();
  const Bytes table = bytes_of<float>({5, 6});
  EXPECT_ERROR(runner.run_y(graph, {{"t", table}, {"ids", bytes_of<int32_t>({2})}}), "row 2");
  ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(graph, {{"t", table}, {"ids", bytes_of<int32_t>({1})}}));
  EXPECT_EQ(y, (std::vector<float>{6}));
}

TEST(CpuOps, CastRoundsToNearestAndBack) {
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

TEST(CpuOps, CastToATypeWithoutEncoderIsUnsupported) {
  GraphRunner runner;
  GraphBuilder b;
  b.output(b.cast(b.input("x", DType::f32, {256}), DType::iq1_s), "y");
  EXPECT_ERROR(runner.run(std::move(b).finish().value(), {{"x", Bytes(1024)}}), "cpu cannot run cast x f32 [256]");
}

}  // namespace
}  // namespace tessera
