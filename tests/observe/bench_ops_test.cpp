// Benchmarks of single operations: a row for each matching operation, reported as soon as it is measured.
#include "tessera/observe/bench_ops.h"

#include <gtest/gtest.h>

#include "tessera/cpu/backend.h"
#include "tests/support/testing.h"

namespace tessera::observe {
namespace {

class BenchOps : public ::testing::Test {
 protected:
  Result<std::vector<BenchOpRow>> rows(std::string_view pattern, size_t n_most = SIZE_MAX) {
    OpBenchOptions options{
        .pattern = {}, .types = {DType::q4_0, DType::f16}, .sizes = OpSizes::small, .n_repetitions = 2};
    TESSERA_ASSIGN(options.pattern, TensorPattern::compile(pattern));
    std::vector<BenchOpRow> rows;
    const CancelToken cancel;
    TESSERA_TRY(bench_ops(*device_, options, {.threads = {.n_threads = 1}, .activations = activations_}, cancel,
                          [&](const BenchOpRow& row) -> Result<> {
                            if (rows.size() == n_most) return fail(ErrorCode::io, "the sink is full");
                            rows.push_back(row);
                            return {};
                          }));
    return rows;
  }
  ActivationPrecision activations_ = ActivationPrecision::automatic;
  std::unique_ptr<Device> device_ = cpu::create_device("").value();
};

TEST_F(BenchOps, EachMatchIsARow) {
  ASSERT_OK_AND_ASSIGN(const auto all, rows("^mul_mat q4_0 256x32"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].op, "mul_mat");
  EXPECT_EQ(all[0].type, "q4_0");
  EXPECT_EQ(all[0].n_tokens, 1);
  EXPECT_EQ(all[1].n_tokens, 16);
  for (const BenchOpRow& row : all) {
    EXPECT_EQ(row.seconds.size(), 2u);
    EXPECT_EQ(row.n_threads, 1);
    EXPECT_EQ(row.macs, 256.0 * 32 * static_cast<double>(row.n_tokens));
  }
}

TEST_F(BenchOps, ArithmeticOfAProductFollowsWeightsAndActivations) {
  const auto expect = [&](ActivationPrecision activations, Arithmetic of_q4_0, Arithmetic of_f16) {
    activations_ = activations;
    ASSERT_OK_AND_ASSIGN(const auto blocks, rows("^mul_mat q4_0 256x32 t1$"));
    EXPECT_EQ(blocks.at(0).arithmetic, of_q4_0);
    ASSERT_OK_AND_ASSIGN(const auto halves, rows("^mul_mat f16 256x32 t1$"));
    EXPECT_EQ(halves.at(0).arithmetic, of_f16);
  };
  expect(ActivationPrecision::automatic, Arithmetic::int8, Arithmetic::int16);
  expect(ActivationPrecision::int8_64, Arithmetic::int8, Arithmetic::int16);
  expect(ActivationPrecision::float32, Arithmetic::f32, Arithmetic::f32);
}

TEST_F(BenchOps, StopsAtAnErrorOfTheSink) {
  EXPECT_ERROR(rows("^mul_mat q4_0", 1), "the sink is full");
  EXPECT_ERROR(rows("nothing"), "no operation matches");
}

}  // namespace
}  // namespace tessera::observe
