// Operations on each row by itself and sums along one dimension, on the device against the CPU.

#include "tests/gpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

using GpuNorm = GpuTest;

const std::vector<UnaryCase> kNorms = {
    {"soft_max", [](GraphBuilder& b, Value x) { return b.soft_max(x); }},
    {"rms_norm", [](GraphBuilder& b, Value x) { return b.rms_norm(x, {}, 1e-5f); }},
    {"layer_norm", [](GraphBuilder& b, Value x) { return b.layer_norm(x, {}, {}, 1e-5f); }},
    {"l2_norm", [](GraphBuilder& b, Value x) { return b.l2_norm(x, 1e-6f); }},
    {"row_sum", [](GraphBuilder& b, Value x) { return b.row_sum(x); }},
    {"sum_squares", [](GraphBuilder& b, Value x) { return b.sum_squares(x); }},
};

TEST_F(GpuNorm, UnaryOpsAreTheCpus) { expect_unary_as_on_cpu(kNorms); }

TEST_F(GpuNorm, NormsWithWeights) {
  Rng rng(3);
  const NamedBytes inputs = {{"x", bytes_of(random_values(rng, 77 * 5))},
                             {"w", bytes_of(random_values(rng, 77))},
                             {"c", bytes_of(random_values(rng, 77))}};
  for (const bool is_rms : {true, false})
    expect_as_on_cpu(
        {.tensors = {},
         .build =
             [&](GraphBuilder& b, const auto&) {
               const Value x = b.input("x", DType::f32, {77, 5}), w = b.input("w", DType::f32, {77});
               b.output(is_rms ? b.rms_norm(x, w, 1e-6f) : b.layer_norm(x, w, b.input("c", DType::f32, {77}), 1e-6f),
                        "y");
             },
         .inputs = inputs},
        kRowBound, is_rms ? "rms_norm" : "layer_norm");
}

}  // namespace
}  // namespace tessera
