// Checks of operations of one operand on the device against the CPU: odd lengths, strided operands, extreme values.
#pragma once

#include <functional>

#include "tests/gpu/gpu_support.h"
#include "tests/support/numbers.h"

namespace tessera::testing {

/// Both sum in f32, in different orders, and the device's exp may be a few units off: 1e-13 and thereabouts.
inline constexpr double kRowBound = 1e-11;

struct UnaryCase {
  const char* name;
  std::function<Value(GraphBuilder&, Value)> build;
};

/// Each case on rows of several lengths, and on the first columns of wider rows.
inline void expect_unary_as_on_cpu(const std::vector<UnaryCase>& cases) {
  Rng rng(1);
  for (const UnaryCase& op : cases)
    for (const Shape& shape : {Shape{1}, Shape{67, 3}, Shape{130, 2, 3}, Shape{5, 0}}) {
      const NamedBytes inputs = {{"x", bytes_of(random_values(rng, shape.n_elements(), 8.0f))}};
      expect_as_on_cpu(
          {.tensors = {},
           .build = [&](GraphBuilder& b, const auto&) { b.output(op.build(b, b.input("x", DType::f32, shape)), "y"); },
           .inputs = inputs},
          kRowBound, std::string(op.name) + " " + to_string(shape));
      if (shape.empty()) continue;
      // Rows of every other element group: the first columns of wider ones.
      expect_as_on_cpu({.tensors = {},
                        .build =
                            [&](GraphBuilder& b, const auto&) {
                              const Value x = b.input("x", DType::f32, shape);
                              Layout layout = b.spec(x).layout;
                              layout.shape[0] = (shape[0] + 1) / 2;
                              b.output(op.build(b, b.view(x, layout, 0)), "y");
                            },
                        .inputs = inputs},
                       kRowBound, std::string(op.name) + " of a view of " + to_string(shape));
    }
}

/// Each case on values where exp() and rounding reach their ends, each in a row of its own.
inline void expect_extremes_as_on_cpu(const std::vector<UnaryCase>& cases) {
  const std::vector<float> values = {0.0f,   -0.0f,   1e-20f, -1e-20f, 1e-3f, 88.0f, -88.0f,
                                     200.0f, -200.0f, 1e20f,  -1e20f,  kInf,  kNaN};
  const auto n = static_cast<int64_t>(values.size());
  for (const UnaryCase& op : cases) {
    expect_as_on_cpu({.tensors = {},
                      .build =
                          [&](GraphBuilder& b, const auto&) {
                            b.output(op.build(b, b.input("x", DType::f32, {1, n})), "y");
                          },
                      .inputs = {{"x", bytes_of(values)}}},
                     1e-9, std::string(op.name));
  }
}

}  // namespace tessera::testing
