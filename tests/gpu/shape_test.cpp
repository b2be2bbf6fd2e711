// Elements moved, on the device against the CPU.

#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuShape = GpuTest;

TEST_F(GpuShape, ConcatIsTheCpus) {
  Rng rng(4);
  expect_as_on_cpu(
      {.tensors = {},
       .build =
           [](GraphBuilder& b, const auto&) {
             b.output(b.concat(b.input("a", DType::f32, {3, 2, 4}), b.input("c", DType::f32, {5, 2, 4})), "y");
           },
       .inputs = {{"a", bytes_of(random_values(rng, 24))}, {"c", bytes_of(random_values(rng, 40))}}},
      0, "concat");
}

}  // namespace
}  // namespace tessera
