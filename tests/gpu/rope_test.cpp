// Positions on the device against the CPU: rope with its table, and temperatures.

#include "tests/gpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

using GpuRope = GpuTest;

// Angles of thousands of turns, YaRN, factors; both kinds of pairs, rows longer than what is rotated.
TEST_F(GpuRope, RopeIsTheCpusAtAnyPosition) {
  Rng rng(5);
  const std::vector<int32_t> positions = {0, 1, 2, 1000, 131071, 1 << 24, -5};
  const auto n = static_cast<int64_t>(positions.size());
  const std::vector<float> factors = {1, 1, 1.5f, 2, 3, 0.01f, 8, 16};
  for (const bool has_yarn : {false, true})
    for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::halves}) {
      RopeTableParams params{.n_rot = 16, .freq_base = 10000.0f, .freq_scale = 0.25f, .magnitude = 1.25f};
      if (has_yarn) params.yarn_ext = 1.0f, params.yarn_low = 2.0f, params.yarn_high = 6.0f;
      expect_as_on_cpu({.tensors = {{"factors", DType::f32, {8}, bytes_of(factors)}},
                        .build =
                            [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                              const Value table = b.rope_table(b.input("p", DType::i32, {n}), tensors[0], params);
                              b.output(b.rope(b.input("x", DType::f32, {20, 3, n}), table, pairs), "y");
                            },
                        .inputs = {{"p", bytes_of(positions)}, {"x", bytes_of(random_values(rng, 20 * 3 * n))}}},
                       kRowBound, "rope");
    }
}

TEST_F(GpuRope, TemperatureIsTheCpus) {
  expect_as_on_cpu(
      {.tensors = {},
       .build =
           [](GraphBuilder& b, const auto&) {
             b.output(b.temperature(b.input("p", DType::i32, {6}), {.beta = 0.5f, .length = 100, .offset = 1}), "y");
           },
       .inputs = {{"p", bytes_of<int32_t>({0, 99, 100, 199, 250, 100000})}}},
      kRowBound, "temperature");
}

}  // namespace
}  // namespace tessera
