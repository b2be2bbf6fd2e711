// Every weight format: rows as the scalar truth decodes them, products as in double.
#include <cstring>

#include "tessera/quant/formats.h"
#include "tests/vulkan/vulkan_support.h"

namespace tessera {
namespace {

using namespace testing;

class VulkanFormats : public VulkanTest, public ::testing::WithParamInterface<DType> {};

std::vector<DType> weight_formats() {
#ifdef TESSERA_SANITIZED  // sanitizers do not see into shaders, and compiling those takes three times as long
  return {DType::f32, DType::f16, DType::q4_0, DType::q4_k, DType::iq2_xxs, DType::mxfp4};
#else
  std::vector<DType> formats;
  for (const DTypeInfo& type : all_dtypes())
    if (const quant::Format* format = quant::find_format(type.dtype); format != nullptr && format->dequantize_row)
      formats.push_back(type.dtype);
  return formats;
#endif
}
INSTANTIATE_TEST_SUITE_P(All, VulkanFormats, ::testing::ValuesIn(weight_formats()),
                         [](const auto& info) { return std::string(tessera::info(info.param).name); });

struct Matrix {
  Bytes bytes;
  std::vector<float> values;
};

// Rows of which every byte is used: encoded from random values of differing magnitudes.
Matrix random_matrix(DType dtype, int64_t k, int64_t n, Rng& rng) {
  const quant::Format& format = *quant::find_format(dtype);
  const size_t bytes = row_bytes(dtype, k).value();
  Matrix matrix{Bytes(bytes * static_cast<size_t>(n)), std::vector<float>(static_cast<size_t>(k * n))};
  for (int64_t row = 0; row < n; ++row) {
    const std::vector<float> values = random_values(rng, k, 0.1f * static_cast<float>(1 + row % 5));
    std::byte* to = matrix.bytes.data() + static_cast<size_t>(row) * bytes;
    format.quantize_row_compat(values.data(), nullptr, k, to);
    format.dequantize_row(to, k, matrix.values.data() + row * k);
  }
  return matrix;
}

TEST_P(VulkanFormats, RowsAreTheScalarTruths) {
  const DType dtype = GetParam();
  Rng rng(1);
  const int64_t k = info(dtype).is_blocked() ? 512 : 45;
  const Matrix matrix = random_matrix(dtype, k, 6, rng);
  const std::vector<int32_t> ids = {5, 0, 3};
  ASSERT_OK_AND_ASSIGN(const TestOutputs got,
                       run_on(*vulkan_device(), {.tensors = {{"w", dtype, {k, 6}, matrix.bytes}},
                                                 .build =
                                                     [](GraphBuilder& b, const std::vector<Value>& tensors) {
                                                       b.output(b.get_rows(tensors[0], b.input("ids", DType::i32, {3})),
                                                                "y");
                                                     },
                                                 .inputs = {{"ids", bytes_of(ids)}}}));
  const auto y = values_of<float>(got.outputs.at("y"));
  double worst = 0, largest = 0;
  for (size_t i = 0; i < ids.size(); ++i)
    for (int64_t j = 0; j < k; ++j) {
      const double expected = matrix.values[static_cast<size_t>(ids[i] * k + j)];
      worst = std::max(worst, std::abs(y[i * static_cast<size_t>(k) + static_cast<size_t>(j)] - expected));
      largest = std::max(largest, std::abs(expected));
    }
  EXPECT_LE(worst, 2e-7 * largest);  // where a product and a difference are one operation: half a unit
  EXPECT_GT(largest, 0.05);
}

// The sizes leave no tile whole: rows, tokens, and (of floats) columns. A token's bits do not depend on the others.
TEST_P(VulkanFormats, ProductsOfAnyNumberOfTokens) {
  const DType dtype = GetParam();
  Rng rng(2);
  const int64_t k = info(dtype).is_blocked() ? 512 : 203, n = 11, n_most = 19;
  const Matrix matrix = random_matrix(dtype, k, n, rng);
  const std::vector<float> x = random_values(rng, k * n_most);
  std::vector<float> all;
  // A shader is made for each number of tokens at a time, which takes longer than it runs: all for two formats only.
  std::vector<int64_t> numbers = {n_most, 1, 0};
  if (dtype == DType::f32 || dtype == DType::q4_k) numbers = {n_most, 1, 2, 4, 5, 8, 0};
  for (const int64_t n_tokens : numbers) {
    const std::vector<float> some(x.begin(), x.begin() + k * n_tokens);
    ASSERT_OK_AND_ASSIGN(
        const TestOutputs got,
        run_on(*vulkan_device(), {.tensors = {{"w", dtype, {k, n}, matrix.bytes}},
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
      EXPECT_LE(relative_error(y, expected), 1e-12);  // sums in f32
    }
    EXPECT_TRUE(same_bytes(y, {all.begin(), all.begin() + n * n_tokens})) << n_tokens;
  }
}

using VulkanProducts = VulkanTest;

TEST_F(VulkanProducts, HeadsHaveMatricesOfTheirOwn) {
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
                     1e-12, "mul_mat_heads");
}

}  // namespace
}  // namespace tessera
