// Products on the device: shapes that leave no tile, chunk or segment whole, few and many tokens, workgroups of eight
// and of 64 invocations (where many tokens are a tile's), every weight format. A token's bits are the same everywhere.
#include <algorithm>

#include "tests/gpu/formats_testing.h"

namespace tessera {
namespace {

using namespace testing;

struct ProductCase {
  DType dtype;
  int64_t k, n;
};

class GpuProductShapes : public GpuTest, public ::testing::WithParamInterface<ProductCase> {};

// Rows of floats that can and cannot be read 16 bytes at a time, and formats with and without a wide decoder.
INSTANTIATE_TEST_SUITE_P(All, GpuProductShapes,
                         ::testing::Values(ProductCase{DType::f32, 203, 11}, ProductCase{DType::f32, 2604, 37},
                                           ProductCase{DType::f32, 1096, 16}, ProductCase{DType::f32, 4360, 9},
                                           ProductCase{DType::f16, 1030, 33}, ProductCase{DType::bf16, 1088, 70},
                                           ProductCase{DType::q8_0, 3104, 41}, ProductCase{DType::q4_k, 2304, 35},
                                           ProductCase{DType::iq3_xxs, 1280, 65}),
                         [](const auto& tested) {
                           return fmt::format("{}_{}x{}", tessera::info(tested.param.dtype).name, tested.param.k,
                                              tested.param.n);
                         });

TEST_P(GpuProductShapes, BitsDoNotDependOnTokensBesideOrLanes) {
  const auto& [dtype, k, n] = GetParam();
  constexpr int64_t kMost = 75;
  Rng rng(2);
  const quant::Format& format = *quant::find_format(dtype);
  const size_t bytes = row_bytes(dtype, k).value();
  Bytes weights(bytes * static_cast<size_t>(n));
  std::vector<float> values(static_cast<size_t>(k * n));
  for (int64_t row = 0; row < n; ++row) {
    std::byte* to = weights.data() + static_cast<size_t>(row) * bytes;
    format.quantize_row_compat(random_values(rng, k).data(), nullptr, k, to);
    format.dequantize_row(to, k, values.data() + row * k);
  }
  const std::vector<float> x = random_values(rng, k * kMost);
  std::vector<float> all;
  for (int64_t t = 0; t < kMost; ++t)
    for (int64_t row = 0; row < n; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += double{values[static_cast<size_t>(row * k + i)]} * x[static_cast<size_t>(t * k + i)];
      all.push_back(static_cast<float>(sum));
    }
  // A shader is compiled for each number of tokens at a time, which takes longer than the run.
  std::vector<int64_t> numbers = {kMost, 1, 9};
  if (dtype == DType::f32) numbers.push_back(7);
  bool is_first = true;
  for (const Device* device : {gpu_device(), gpu_device_of_64_lanes()})
    for (const int64_t n_tokens : numbers) {
      const TestGraph test{.tensors = {{"w", dtype, {k, n}, weights}},
                           .build =
                               [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                                 b.output(b.mul_mat(tensors[0], b.input("x", DType::f32, {k, n_tokens})), "y");
                               },
                           .inputs = {{"x", bytes_of(std::vector<float>(x.begin(), x.begin() + k * n_tokens))}}};
      ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*device, test));
      const auto y = values_of<float>(got.outputs.at("y"));
      if (is_first) {
        const double error = relative_error(y, all);
        EXPECT_LE(error, kProductBound);  // sums in f32
        RecordProperty("nmse", fmt::format("{:.1e}", error));
        all = y;
      }
      is_first = false;
      EXPECT_TRUE(same_bytes(y, {all.begin(), all.begin() + n * n_tokens}))
          << n_tokens << " tokens, " << (device == gpu_device() ? "few" : "64") << " lanes";
    }
}

class GpuFormats : public GpuTest, public ::testing::WithParamInterface<DType> {};

INSTANTIATE_TEST_SUITE_P(All, GpuFormats, ::testing::ValuesIn(weight_formats()),
                         [](const auto& info) { return std::string(tessera::info(info.param).name); });

// The sizes leave no tile whole: rows, tokens, and (of floats) columns. A token's bits do not depend on the others.
TEST_P(GpuFormats, ProductsOfAnyNumberOfTokens) {
  const DType dtype = GetParam();
  Rng rng(2);
  const int64_t k = info(dtype).is_blocked() ? 512 : 203, n = 11, n_most = 19;
  const FormatMatrix matrix = random_matrix(dtype, k, n, rng);
  const std::vector<float> x = random_values(rng, k * n_most);
  std::vector<float> all;
  // A shader is made for each number of tokens at a time, which takes longer than it runs: all for two formats only.
  std::vector<int64_t> numbers = {n_most, 1, 0};
  if (dtype == DType::f32 || dtype == DType::q4_k) numbers = {n_most, 1, 2, 4, 5, 8, 0};
  for (const int64_t n_tokens : numbers) {
    const std::vector<float> some(x.begin(), x.begin() + k * n_tokens);
    ASSERT_OK_AND_ASSIGN(
        const TestOutputs got,
        run_on(*gpu_device(), {.tensors = {{"w", dtype, {k, n}, matrix.bytes}},
                               .build =
                                   [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                                     b.output(b.mul_mat(tensors[0], b.input("x", DType::f32, {k, n_tokens})), "y");
                                   },
                               .inputs = {{"x", bytes_of(some)}}}));
    const auto y = values_of<float>(got.outputs.at("y"));
    if (n_tokens == n_most) {
      all = y;
      std::vector<float> expected;
      for (int64_t t = 0; t < n_tokens; ++t)
        for (int64_t row = 0; row < n; ++row) {
          double sum = 0;
          for (int64_t i = 0; i < k; ++i)
            sum += double{matrix.values[static_cast<size_t>(row * k + i)]} * x[static_cast<size_t>(t * k + i)];
          expected.push_back(static_cast<float>(sum));
        }
      EXPECT_LE(relative_error(y, expected), kProductBound);  // sums in f32
    }
    EXPECT_TRUE(same_bytes(y, {all.begin(), all.begin() + n * n_tokens})) << n_tokens;
  }
}

using GpuProducts = GpuTest;

TEST_F(GpuProducts, HeadsHaveMatricesOfTheirOwn) {
  Rng rng(3);
  for (const int64_t n_tokens : {1, 9})
    expect_as_on_cpu({.tensors = {{"w", DType::f32, {40, 21, 3}, bytes_of(random_values(rng, 40 * 21 * 3))}},
                      .build =
                          [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                            const Value wide = b.input("x", DType::f32, {50, 3, n_tokens});
                            Layout layout = b.spec(wide).layout;
                            layout.shape[0] = 40;
                            b.output(b.mul_mat_heads(tensors[0], b.view(wide, layout, 20)), "y");
                          },
                      .inputs = {{"x", bytes_of(random_values(rng, 50 * 3 * n_tokens))}}},
                     kProductBound, "mul_mat_heads");
}

// x is not aligned to 16 bytes.
TEST_F(GpuProducts, HeadsOnTiles) {
  Rng rng(3);
  constexpr int64_t kTokens = 43;
  expect_as_on_cpu({.tensors = {{"w", DType::f32, {40, 21, 3}, bytes_of(random_values(rng, 40 * 21 * 3))}},
                    .build =
                        [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                          const Value wide = b.input("x", DType::f32, {50, 3, kTokens});
                          Layout layout = b.spec(wide).layout;
                          layout.shape[0] = 40;
                          b.output(b.mul_mat_heads(tensors[0], b.view(wide, layout, 20)), "y");
                        },
                    .inputs = {{"x", bytes_of(random_values(rng, 50 * 3 * kTokens))}}},
                   kProductBound, "mul_mat_heads", gpu_device_of_64_lanes());
}

}  // namespace
}  // namespace tessera
