// Operations on each element by itself, on the device against the CPU.
#include <functional>

#include "tests/gpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

using GpuElementwise = GpuTest;

const std::vector<UnaryCase> kElementwise = {
    {"scale", [](GraphBuilder& b, Value x) { return b.scale(x, -1.7f); }},
    {"silu", [](GraphBuilder& b, Value x) { return b.silu(x); }},
    {"sigmoid", [](GraphBuilder& b, Value x) { return b.sigmoid(x); }},
    {"gelu", [](GraphBuilder& b, Value x) { return b.gelu(x); }},
    {"relu_squared", [](GraphBuilder& b, Value x) { return b.relu_squared(x); }},
    {"soft_cap", [](GraphBuilder& b, Value x) { return b.soft_cap(x, 3.0f); }},
    {"clamp", [](GraphBuilder& b, Value x) { return b.clamp(x, -0.5f, 2.0f); }},
    {"sqrt", [](GraphBuilder& b, Value x) { return b.sqrt(x); }},  // of negative values: NaN on both
    {"softplus", [](GraphBuilder& b, Value x) { return b.softplus(x); }},
    {"exp", [](GraphBuilder& b, Value x) { return b.exp(x); }},
    {"xielu",
     [](GraphBuilder& b, Value x) {
       return b.xielu(x, {0.8f, 1.4f, 0.5f, -1e-6f});
     }},
};

TEST_F(GpuElementwise, UnaryOpsAreTheCpus) { expect_unary_as_on_cpu(kElementwise); }

TEST_F(GpuElementwise, LargeAndStrangeValuesAreTheCpus) {
  std::vector<UnaryCase> cases = kElementwise;
  std::erase_if(cases,
                [](const UnaryCase& op) { return std::string(op.name) == "exp"; });  // e^88 is half of the sum of all
  expect_extremes_as_on_cpu(cases);
}

struct BinaryCase {
  const char* name;
  std::function<Value(GraphBuilder&, Value, Value)> build;
  bool repeats;        // the second operand may be repeated
  bool repeats_inner;  // along rows too
};

const BinaryCase kBinary[] = {
    {"add", [](GraphBuilder& b, Value x, Value z) { return b.add(x, z); }, true, false},
    {"mul", [](GraphBuilder& b, Value x, Value z) { return b.mul(x, z); }, true, true},
    {"div", [](GraphBuilder& b, Value x, Value z) { return b.div(x, z); }, true, false},
    {"swiglu", [](GraphBuilder& b, Value x, Value z) { return b.swiglu(x, z); }, false, false},
    {"geglu", [](GraphBuilder& b, Value x, Value z) { return b.geglu(x, z); }, false, false},
    {"swiglu_oai", [](GraphBuilder& b, Value x, Value z) { return b.swiglu_oai(x, z); }, false, false},
};

TEST_F(GpuElementwise, BinaryOpsAreTheCpus) {
  Rng rng(2);
  const Shape x{70, 3, 4};
  for (const BinaryCase& op : kBinary)
    for (const Shape& z : {x, Shape{70}, Shape{70, 1, 4}, Shape{70, 3}, Shape{1, 3, 4}, Shape{1}}) {
      if (z != x && !op.repeats) continue;
      if (z[0] == 1 && !op.repeats_inner) continue;
      expect_as_on_cpu({.tensors = {},
                        .build =
                            [&](GraphBuilder& b, const auto&) {
                              b.output(op.build(b, b.input("x", DType::f32, x), b.input("z", DType::f32, z)), "y");
                            },
                        .inputs = {{"x", bytes_of(random_values(rng, x.n_elements(), 9.0f))},
                                   {"z", bytes_of(random_values(rng, z.n_elements(), 9.0f))}}},
                       kRowBound, std::string(op.name) + " " + to_string(z));
    }
}

}  // namespace
}  // namespace tessera
