// Products in the default precision: weights and activations are f16 for the matrix units. Every format agrees with
// sums in f64, and a token's bits are the same in every kernel.
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "tests/cuda/timed_run.h"
#include "tests/gpu/formats_testing.h"

namespace tessera {
namespace {

using namespace testing;

class CudaHalves : public GpuTest, public ::testing::WithParamInterface<DType> {};

INSTANTIATE_TEST_SUITE_P(All, CudaHalves, ::testing::ValuesIn(weight_formats()),
                         [](const auto& info) { return std::string(tessera::info(info.param).name); });

// Tiles, segments and groups of tokens that are not whole; few tokens, and many.
TEST_P(CudaHalves, BitsDoNotDependOnTheNumberOfTokens) {
  const DType dtype = GetParam();
  Rng rng(2);
  const int64_t k = info(dtype).is_blocked() ? 768 : 808, n = 37;
  const FormatMatrix matrix = random_matrix(dtype, k, n, rng);
  std::vector<float> x = random_values(rng, k * 75);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= i / static_cast<size_t>(k) % 3 == 1 ? 1e-3f : 100.0f;
  ASSERT_OK_AND_ASSIGN(const auto all, product_of(dtype, k, n, matrix.bytes, x));
  EXPECT_LE(relative_error(all, exact_product(matrix, k, n, x)), 5e-7);
  for (const int64_t n_tokens : {1, 8, 9}) {
    const std::vector<float> some(x.begin(), x.begin() + k * n_tokens);
    ASSERT_OK_AND_ASSIGN(const auto y, product_of(dtype, k, n, matrix.bytes, some));
    EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin())) << n_tokens;
  }
}

using CudaProducts = GpuTest;

// A device that uses only what those of compute capability 8.0 have.
const Device& older_device() {
  static const auto devices = [] {
    cuda::Options options = cuda_options();
    options.capability = 80;
    return std::move(cuda::find_devices(options).devices);
  }();
  return *devices.front();
}

// Enough rows and tokens for the large tiles, of both kinds of matrix units.
TEST_F(CudaProducts, LargeTilesHaveTheBitsOfSmallOnes) {
  Rng rng(3);
  const int64_t k = 96, n = 11 * 128 + 5, n_tokens = 15 * 128 + 3;
  for (const DType dtype : {DType::f16, DType::q8_0}) {
    const FormatMatrix matrix = random_matrix(dtype, k, n, rng);
    const std::vector<float> x = random_values(rng, k * n_tokens);
    const std::vector<float> some(x.end() - k * 60, x.end());
    ASSERT_OK_AND_ASSIGN(const auto y, product_of(dtype, k, n, matrix.bytes, some));
    EXPECT_LE(relative_error(y, exact_product(matrix, k, n, some)), 5e-7);
    for (const Device* device : {gpu_device(), &older_device()}) {
      ASSERT_OK_AND_ASSIGN(const auto all, product_of(dtype, k, n, matrix.bytes, x, *device));
      EXPECT_TRUE(std::equal(y.begin(), y.end(), all.end() - static_cast<int64_t>(y.size())));
    }
  }
}

// Fewer tiles than the large ones need; columns, rows and tokens that do not fill them.
TEST_F(CudaProducts, TilesOfEveryKernelHaveTheSameBits) {
  Rng rng(5);
  for (const DType dtype : {DType::f16, DType::q8_0, DType::q6_k, DType::iq4_xs})
    for (const auto& [k, n, n_tokens] : std::vector<std::array<int64_t, 3>>{{768, 77, 257}, {512, 128, 256}}) {
      const FormatMatrix matrix = random_matrix(dtype, k, n, rng);
      const std::vector<float> x = random_values(rng, k * n_tokens);
      ASSERT_OK_AND_ASSIGN(const auto all, product_of(dtype, k, n, matrix.bytes, x));
      EXPECT_LE(relative_error(all, exact_product(matrix, k, n, x)), 5e-7) << info(dtype).name;
      ASSERT_OK_AND_ASSIGN(const auto older, product_of(dtype, k, n, matrix.bytes, x, older_device()));
      EXPECT_EQ(older, all) << info(dtype).name;
      for (const int64_t n_some : {1, 3, 65}) {
        const std::vector<float> some(x.begin(), x.begin() + k * n_some);
        ASSERT_OK_AND_ASSIGN(const auto y, product_of(dtype, k, n, matrix.bytes, some));
        EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin())) << info(dtype).name << ' ' << n_some;
      }
    }
}

// Activations whose magnitude changes by segment and token, so that their scales do.
std::vector<float> values_of_many_scales(Rng& rng, int64_t n) {
  std::vector<float> x = random_values(rng, n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i / 256 * 5 % 7));
  return x;
}

// Rows of more segments than a block has warps, and than have room in shared memory at a time; more groups of rows than
// blocks. With less shared memory, too.
TEST_F(CudaProducts, LongRowsAndManyRowsOfFewTokens) {
  Rng rng(6);
  for (const auto& [dtype, k, n] : std::vector<std::tuple<DType, int64_t, int64_t>>{{DType::f16, 17 * 256, 37},
                                                                                    {DType::f16, 256, 266 * 16 + 3},
                                                                                    {DType::q8_0, 17 * 256, 37},
                                                                                    {DType::q8_0, 512, 530 * 16 + 3},
                                                                                    {DType::q4_k, 17 * 256, 37},
                                                                                    {DType::f16, 57 * 256, 21},
                                                                                    {DType::q4_0, 57 * 256, 21},
                                                                                    {DType::q6_k, 57 * 256, 21}}) {
    const FormatMatrix matrix = random_matrix(dtype, k, n, rng);
    const std::vector<float> x = values_of_many_scales(rng, k * 8), first(x.begin(), x.begin() + k);
    ASSERT_OK_AND_ASSIGN(const auto all, product_of(dtype, k, n, matrix.bytes, x));
    EXPECT_LE(relative_error(all, exact_product(matrix, k, n, x)), 5e-7) << info(dtype).name;
    for (const Device* device : {gpu_device(), &older_device()}) {
      ASSERT_OK_AND_ASSIGN(const auto y, product_of(dtype, k, n, matrix.bytes, first, *device));
      EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin())) << info(dtype).name;
    }
    ASSERT_OK_AND_ASSIGN(const auto older, product_of(dtype, k, n, matrix.bytes, x, older_device()));
    EXPECT_EQ(older, all) << info(dtype).name;
  }
}

// Products of experts for the pairs of token and slot, in the order of pairs.
Result<std::vector<float>> experts_of(const TestTensor& weights, const std::vector<float>& x,
                                      const std::vector<int32_t>& ids, int64_t n_used) {
  const int64_t n_tokens = static_cast<int64_t>(ids.size()) / n_used;
  const int64_t k = weights.shape[0], n_experts = weights.shape[2];
  TESSERA_ASSIGN(
      const TimedRun run,
      run_timed(
          BufferUsage::weights, {weights},
          [&](GraphBuilder& b, const std::vector<Value>& tensors) {
            const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {n_used, n_tokens}), n_experts);
            const Value in = b.input("x", DType::f32, {k, n_tokens});
            b.output(b.mul_mat_experts(tensors[0], in, routes, ExpertInput::tokens), "y");
            b.output(routes.value(), "routes");
          },
          {{"x", bytes_of(x)}, {"ids", bytes_of(ids)}}));
  const auto y = values_of<float>(run.outputs.at("y"));
  const auto routes = values_of<int32_t>(run.outputs.at("routes"));
  std::vector<float> by_pair;
  for (size_t pair = 0; pair < ids.size(); ++pair) {
    const int64_t row = routes[routes.size() - ids.size() + pair], n = weights.shape[1];
    by_pair.insert(by_pair.end(), y.begin() + row * n, y.begin() + (row + 1) * n);
  }
  return by_pair;
}

// Of many experts, few have tokens: among them the first and the last, and one with more tokens than a block multiplies
// at a time. Whole segments and others; more groups of rows than blocks; the last token alone, a few tokens, and with
// five experts enough for tiles.
TEST_F(CudaProducts, ExpertsOfFewTokensHaveTheBitsOfMany) {
  Rng rng(8);
  constexpr int64_t kUsed = 3, kTokens = 19;
  for (const auto& [dtype, k, n, n_experts] :
       std::vector<std::tuple<DType, int64_t, int64_t, int64_t>>{{DType::f16, 512, 21, 150},
                                                                 {DType::f16, 808, 21, 5},
                                                                 {DType::q8_0, 256, 21, 150},
                                                                 {DType::q8_0, 288, 1100, 5},
                                                                 {DType::q4_k, 512, 21, 5},
                                                                 {DType::iq4_xs, 256, 21, 5},
                                                                 {DType::f32, 264, 21, 150}}) {
    const FormatMatrix matrix = random_matrix(dtype, k, n * n_experts, rng);
    const TestTensor weights{"w", dtype, {k, n, n_experts}, matrix.bytes};
    const std::vector<float> x = values_of_many_scales(rng, k * kTokens);
    std::vector<int32_t> ids;
    for (int64_t token = 0; token < kTokens; ++token) {
      ids.push_back(static_cast<int32_t>(n_experts - 1));
      ids.push_back(static_cast<int32_t>(token % 4));
      ids.push_back(static_cast<int32_t>(token * 37 % n_experts));
    }
    SCOPED_TRACE(fmt::format("{}, {} experts", info(dtype).name, n_experts));
    ASSERT_OK_AND_ASSIGN(const auto all, experts_of(weights, x, ids, kUsed));
    std::vector<float> expected;
    for (size_t pair = 0; pair < ids.size(); ++pair) {
      const auto token = static_cast<int64_t>(pair) / kUsed;
      const FormatMatrix one{
          {}, {matrix.values.begin() + ids[pair] * n * k, matrix.values.begin() + (ids[pair] + 1) * n * k}};
      const auto y = exact_product(one, k, n, {x.begin() + token * k, x.begin() + (token + 1) * k});
      expected.insert(expected.end(), y.begin(), y.end());
    }
    EXPECT_LE(relative_error(all, expected), 5e-7);
    for (const int64_t n_some : {1, 3, 9}) {
      ASSERT_OK_AND_ASSIGN(const auto some, experts_of(weights, {x.end() - n_some * k, x.end()},
                                                       {ids.end() - n_some * kUsed, ids.end()}, kUsed));
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.end() - static_cast<int64_t>(some.size()))) << n_some;
    }
  }
}

// Magnitudes beyond f16's range have a scale of their own in each segment.
TEST_F(CudaProducts, LargeAndSmallActivationsKeepTheirPrecision) {
  Rng rng(4);
  const int64_t k = 512, n = 16;
  const FormatMatrix matrix = random_matrix(DType::f16, k, n, rng);
  for (const float factor : {1e-20f, 1e-6f, 1e6f, 1e20f}) {
    std::vector<float> x = random_values(rng, k * 9);
    for (float& v : x) v *= factor;
    ASSERT_OK_AND_ASSIGN(const auto y, product_of(DType::f16, k, n, matrix.bytes, x));
    EXPECT_LE(relative_error(y, exact_product(matrix, k, n, x)), 5e-7) << factor;
  }
}

}  // namespace
}  // namespace tessera
