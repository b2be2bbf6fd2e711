// Elementwise operations in graphs: strides, repetition, empty dimensions, in place or not, any number of threads.
// elementwise_kernels_test.cpp checks the accuracy of the kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cpu/ops_testing.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

TEST(Elementwise, Silu) {
  check_row_op([](auto& b, Value x) { return b.silu(x); },
               [](Row x) {
                 for (double& v : x) v = v / (1 + std::exp(-v));
                 return x;
               });
}

TEST(Elementwise, Scale) {
  check_row_op([](auto& b, Value x) { return b.scale(x, -1.5f); },
               [](Row x) {
                 for (double& v : x) v *= -1.5;
                 return x;
               });
}

/// Checks an elementwise operation.
void check_element_op(const Unary& op, double (*reference)(double)) {
  check_row_op(op, [=](Row x) {
    for (double& v : x) v = reference(v);
    return x;
  });
}

TEST(Elementwise, ElementsByThemselves) {
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

TEST(Sigmoid, IsOneOverOnePlusExp) {
  const std::vector<float> x = {0, 1, -1, 20, -20, 100, -100, kInf, -kInf};
  GraphRunner runner;
  GraphBuilder b;
  b.output(b.sigmoid(b.input("x", DType::f32, {9})), "y");
  ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(x)}}));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(y[i], 1 / (1 + std::exp(-static_cast<double>(x[i]))), 1e-7) << x[i];  // half a unit of the last place
}

void check_values(Value (*op)(GraphBuilder&, Value), double (*reference)(double), const std::vector<float>& x,
                  double tolerance) {
  std::vector<double> expected;
  for (const float v : x) expected.push_back(reference(v));
  run_everywhere(
      [&](const Device&) {
        GraphBuilder b;
        b.output(op(b, b.input("x", DType::f32, {static_cast<int64_t>(x.size())})), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of(x)}},
      [&](const std::vector<float>& y) {
        for (size_t i = 0; i < y.size(); ++i)
          ASSERT_NEAR(y[i], expected[i], tolerance * std::abs(expected[i]) + 1e-37) << "of " << x[i];
      });
}

std::vector<float> spread_values(float limit) {
  Rng rng(3);
  std::vector<float> x = random_values(rng, 3000, limit);
  for (const float v : {0.0f, -0.0f, 1e-6f, -1e-6f, 1e-30f, limit, -limit}) x.push_back(v);
  return x;
}

TEST(Softplus, IsTheLogarithmOfOnePlusExp) {
  const auto op = [](GraphBuilder& b, Value x) { return b.softplus(x); };
  const auto reference = [](double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); };
  check_values(op, reference, spread_values(80.0f), 1e-6);  // a few ulp, 2 of them from exp()
  check_values(op, reference, spread_values(2.0f), 1e-6);
  check_values(op, reference, {1e30f, 3e38f}, 0);
}

TEST(Exp, IsExp) {
  check_values([](GraphBuilder& b, Value x) { return b.exp(x); }, [](double x) { return std::exp(x); },
               spread_values(80.0f), 3e-7);
}

TEST(Softplus, OfWhatIsNoNumberIsNone) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        b.output(b.softplus(b.input("x", DType::f32, {4})), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of<float>({std::nanf(""), INFINITY, -INFINITY, -200})}},
      [](const std::vector<float>& y) {
        EXPECT_TRUE(std::isnan(y[0]));
        EXPECT_EQ(y[1], INFINITY);
        EXPECT_EQ(y[2], 0.0f);
        EXPECT_EQ(y[3], 0.0f);
      });
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
        {{"a", bytes_of(a)}, {"b", bytes_of(b)}}, [&](const auto& y) { expect_near(y, expected, kRowTolerance); });
  }
}

const std::vector<BinaryCase> kSameOrRepeatedRows{
    {{7}, {7}},   {{7, 5}, {7, 5}}, {{1500, 3}, {1500}}, {{8, 3, 2}, {8, 1, 2}}, {{8, 3, 2, 2}, {8, 3, 1, 2}},
    {{8, 0}, {8}}};

TEST(Elementwise, AddRepeatsItsSecondOperand) {
  check_binary([](auto& b, Value x, Value y) { return b.add(x, y); }, [](double x, double y) { return x + y; },
               kSameOrRepeatedRows);
}

TEST(Elementwise, MulRepeatsItsSecondOperand) {
  std::vector<BinaryCase> cases = kSameOrRepeatedRows;
  cases.insert(cases.end(), {{{1500, 3}, {1}}, {{8, 3, 2}, {1, 3}}, {{8, 3, 2}, {1, 1, 2}}, {{1, 3}, {1, 3}}});
  check_binary([](auto& b, Value x, Value y) { return b.mul(x, y); }, [](double x, double y) { return x * y; }, cases);
}

TEST(Elementwise, DivRepeatsItsSecondOperand) {
  check_binary([](auto& b, Value x, Value y) { return b.div(x, b.add(b.relu_squared(y), b.sigmoid(y))); },
               [](double x, double y) { return x / ((y > 0 ? y * y : 0) + 1 / (1 + std::exp(-y))); },
               kSameOrRepeatedRows);
}

TEST(Elementwise, OtherGatesOfEachElement) {
  const std::vector<BinaryCase> cases{{{7}, {7}}, {{1500, 3}, {1500, 3}}, {{8, 0}, {8, 0}}};
  check_binary(
      [](auto& b, Value x, Value y) { return b.geglu(x, y); },
      [](double x, double y) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) * y; },
      cases);
  check_binary([](auto& b, Value x, Value y) { return b.swiglu_oai(x, y); },
               [](double x, double y) { return x / (1 + std::exp(-1.702 * x)) * (y + 1); },
               cases);  // below the bound of 7
}

TEST(Elementwise, SwigluGatesEachElement) {
  check_binary([](auto& b, Value x, Value y) { return b.swiglu(x, y); },
               [](double x, double y) { return x / (1 + std::exp(-x)) * y; },
               {{{7}, {7}}, {{1500, 3}, {1500, 3}}, {{8, 0}, {8, 0}}});
}

TEST(Elementwise, AValueMayBeBothOperands) {
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

}  // namespace
}  // namespace tessera
