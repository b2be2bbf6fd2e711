// Products on cooperative matrices. CI has no device with such matrices, so there the shaders run with emulated ones.
#include "tessera/vulkan/cooperative.h"

#include <array>
#include <cstdlib>
#include <limits>
#include <span>

#include "tessera/base/half.h"
#include "tests/gpu/formats_testing.h"

namespace tessera {
namespace {

using namespace testing;

using VulkanCooperative = GpuTest;

std::string matrices_of(const Device& device) {
  for (const auto& [name, value] : device.properties())
    if (name == "cooperative matrices") return value;
  return "";
}

TEST_F(VulkanCooperative, AreOffWhereThereAreNone) {
  if (gpu_device()->kind() == DeviceKind::gpu) GTEST_SKIP() << "a GPU may have them";
  EXPECT_EQ(matrices_of(*gpu_device()), "off");
  EXPECT_EQ(matrices_of(*gpu_device_with_matrices()), "emulated");
}

TEST_F(VulkanCooperative, AProbeThatIsWrongIsFound) {
  vulkan::Options options = validated_options();
  options.has_matrices = false;
  const auto without = vulkan::find_devices(options);
  ASSERT_FALSE(without.empty());
  ASSERT_OK_AND_ASSIGN(const std::vector<float> plain, vulkan::compute_probe(*without.front(), 40));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> rounded, vulkan::compute_probe(*gpu_device_with_matrices(), 40));
  EXPECT_FALSE(same_bytes(plain, rounded));
  EXPECT_TRUE(vulkan::probes_agree(plain, rounded));
  std::vector<float> swapped = plain;
  std::swap(swapped[0], swapped[1]);
  EXPECT_FALSE(vulkan::probes_agree(plain, swapped));
  std::vector<float> wrong = rounded;
  wrong.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(vulkan::probes_agree(plain, wrong));
  EXPECT_FALSE(vulkan::probes_agree(plain, std::vector<float>(plain.size(), 0.0f)));
  EXPECT_FALSE(vulkan::probes_agree(plain, {}));
  const std::span<const float> all = plain;
  EXPECT_TRUE(vulkan::begins_with(all, all.first(80)));
  EXPECT_TRUE(vulkan::begins_with(all, all));
  EXPECT_FALSE(vulkan::begins_with(all, all.last(80)));
  EXPECT_FALSE(vulkan::begins_with(all.first(80), all));
}

struct MatricesCase {
  DType dtype;
  int64_t k, n, n_tokens;
};

class VulkanMatrices : public GpuTest, public ::testing::WithParamInterface<MatricesCase> {};

// Columns that fill no segment and no chunk, rows and tokens that fill no tile, tiles of both widths, more segments
// than a workgroup has subgroups, y that is not aligned.
INSTANTIATE_TEST_SUITE_P(All, VulkanMatrices,
                         ::testing::Values(MatricesCase{DType::f16, 203, 37, 139},
                                           MatricesCase{DType::f16, 2600, 64, 17},
                                           MatricesCase{DType::q8_0, 96, 128, 257},
                                           MatricesCase{DType::q4_k, 768, 80, 75},
                                           MatricesCase{DType::q6_k, 2560, 16, 40}),
                         [](const auto& tested) {
                           const MatricesCase& one = tested.param;
                           return fmt::format("{}_{}x{}x{}", tessera::info(one.dtype).name, one.k, one.n, one.n_tokens);
                         });

TEST_P(VulkanMatrices, BitsDoNotDependOnTheNumberOfTokens) {
  const auto& [dtype, k, n, n_most] = GetParam();
  const Device& device = *gpu_device_with_matrices();
  Rng rng(2);
  const FormatMatrix matrix = random_matrix(dtype, k, n, rng);
  std::vector<float> x = random_values(rng, k * n_most);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= i / static_cast<size_t>(k) % 3 == 1 ? 1e-3f : 100.0f;
  ASSERT_OK_AND_ASSIGN(const auto all, product_of(dtype, k, n, matrix.bytes, x, device));
  EXPECT_LE(relative_error(all, exact_product(matrix, k, n, x)), 5e-7);
  // A shader is compiled for each number of tokens, which takes seconds on the CPU.
  std::vector<int64_t> numbers = {1, 16};
  if (k == 203) numbers.push_back(3);
  for (const int64_t n_tokens : numbers) {
    const std::vector<float> some(x.begin(), x.begin() + k * n_tokens);
    ASSERT_OK_AND_ASSIGN(const auto y, product_of(dtype, k, n, matrix.bytes, some, device));
    EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin())) << n_tokens;
  }
}

// Magnitudes beyond f16's range have a scale of their own in each segment.
TEST_F(VulkanCooperative, LargeAndSmallActivationsKeepTheirPrecision) {
  Rng rng(4);
  const int64_t k = 512, n = 16;
  const FormatMatrix matrix = random_matrix(DType::f16, k, n, rng);
  for (const int64_t n_tokens : {2, 17})
    for (const float factor : {1e-20f, 1e-6f, 1e6f, 1e20f}) {
      std::vector<float> x = random_values(rng, k * n_tokens);
      for (float& v : x) v *= factor;
      ASSERT_OK_AND_ASSIGN(const auto y, product_of(DType::f16, k, n, matrix.bytes, x, *gpu_device_with_matrices()));
      EXPECT_LE(relative_error(y, exact_product(matrix, k, n, x)), 5e-7) << n_tokens << ' ' << factor;
    }
}

// Runs a graph with output y on matrices, and compares with the CPU.
void expect_on_matrices(const TestGraph& test, const std::string& name) {
  const auto cpu = cpu::create_device("").value();
  ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
  ASSERT_OK_AND_ASSIGN(const TestOutputs got,
                       run_on(*gpu_device_with_matrices(), test, 1, ActivationPrecision::automatic));
  const auto y = values_of<float>(got.outputs.at("y")), exact = values_of<float>(expected.outputs.at("y"));
  EXPECT_LE(relative_error(y, exact), 1e-6) << name;  // of two products
  EXPECT_FALSE(same_bytes(y, exact)) << name;         // not in f32
}

// Heads have matrices of their own; their rows of x are far apart.
TEST_F(VulkanCooperative, HeadsAreAsOnTheCpu) {
  Rng rng(6);
  const int64_t k = 64, n = 24, n_heads = 3;
  const FormatMatrix matrix = random_matrix(DType::q8_0, k, n * n_heads, rng);
  for (const int64_t n_tokens : {2, 19})
    expect_on_matrices({.tensors = {{"w", DType::q8_0, {k, n, n_heads}, matrix.bytes}},
                        .build =
                            [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                              const Value wide = b.input("x", DType::f32, {k + 16, n_heads, n_tokens});
                              Layout layout = b.spec(wide).layout;
                              layout.shape[0] = k;
                              b.output(b.mul_mat_heads(tensors[0], b.view(wide, layout, 16)), "y");
                            },
                        .inputs = {{"x", bytes_of(random_values(rng, (k + 16) * n_heads * n_tokens))}}},
                       fmt::format("{} tokens", n_tokens));
}

// An expert has more tokens than a tile and another has none; x is by token and by routed pair.
TEST_F(VulkanCooperative, ExpertsAreAsOnTheCpu) {
  Rng rng(7);
  const int64_t k = 96, n = 64, n_experts = 4, n_used = 2;
  const FormatMatrix up = random_matrix(DType::q8_0, k, n * n_experts, rng);
  const FormatMatrix down = random_matrix(DType::f16, n, k * n_experts, rng);
  for (const int64_t n_tokens : {3, 133}) {
    std::vector<int32_t> ids;
    for (int32_t t = 0; t < n_tokens; ++t) {
      ids.push_back(2);
      ids.push_back(t % 3 == 0 ? 0 : 3);
    }
    expect_on_matrices({.tensors = {{"up", DType::q8_0, {k, n, n_experts}, up.bytes},
                                    {"down", DType::f16, {n, k, n_experts}, down.bytes}},
                        .build =
                            [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                              const Value chosen = b.input("ids", DType::i32, {n_used, n_tokens});
                              const ExpertRoutes routes = b.expert_routes(chosen, n_experts);
                              const Value h = b.mul_mat_experts(tensors[0], b.input("x", DType::f32, {k, n_tokens}),
                                                                routes, ExpertInput::tokens);
                              b.output(b.mul_mat_experts(tensors[1], h, routes, ExpertInput::routed), "y");
                            },
                        .inputs = {{"ids", bytes_of(ids)}, {"x", bytes_of(random_values(rng, k * n_tokens))}}},
                       fmt::format("{} tokens", n_tokens));
  }
}

// The converted activations of many tokens are in the plan: f16 values and a scale for each of two segments.
TEST_F(VulkanCooperative, ActivationsAreInTheMemoryPlan) {
  const auto bytes_for = [](const Device& device, int64_t n_tokens) -> Result<size_t> {
    TESSERA_ASSIGN(const auto backend, device.create_backend({}));
    GraphBuilder b;
    const Value w = b.input("w", DType::q8_0, {288, 16}), x = b.input("x", DType::f32, {288, n_tokens});
    b.output(b.mul_mat(w, x), "y");
    TESSERA_ASSIGN(const Graph graph, std::move(b).finish());
    return backend->work_bytes(graph);
  };
  ASSERT_OK_AND_ASSIGN(const size_t few, bytes_for(*gpu_device_with_matrices(), 16));
  constexpr size_t kAlignment = 256, kStep = 512;  // of the memory, and bytes of a step's parameters
  for (const size_t n_tokens : {17u, 80u}) {
    ASSERT_OK_AND_ASSIGN(const size_t many, bytes_for(*gpu_device_with_matrices(), static_cast<int64_t>(n_tokens)));
    EXPECT_GE(many, few + n_tokens * 2 * (256 * 2 + 4));
    EXPECT_LE(many, few + n_tokens * 2 * (256 * 2 + 4) + kStep + kAlignment);
  }
}

TEST_F(VulkanCooperative, AVariableTurnsThemOff) {
  ::unsetenv("TESSERA_VULKAN_COOPMAT");
  EXPECT_TRUE(vulkan::options_from_environment()->has_matrices);
  ::setenv("TESSERA_VULKAN_COOPMAT", "1", 1);
  EXPECT_TRUE(vulkan::options_from_environment()->has_matrices);
  ::setenv("TESSERA_VULKAN_COOPMAT", "0", 1);
  EXPECT_FALSE(vulkan::options_from_environment()->has_matrices);
  ::unsetenv("TESSERA_VULKAN_COOPMAT");
}

// With activations of f32, products are those of the plain shaders.
TEST_F(VulkanCooperative, ActivationsOfF32TurnThemOff) {
  Rng rng(8);
  const FormatMatrix matrix = random_matrix(DType::q8_0, 64, 20, rng);
  const TestGraph test{.tensors = {{"w", DType::q8_0, {64, 20}, matrix.bytes}},
                       .build =
                           [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                             b.output(b.mul_mat(tensors[0], b.input("x", DType::f32, {64, 20})), "y");
                           },
                       .inputs = {{"x", bytes_of(random_values(rng, 64 * 20))}}};
  ASSERT_OK_AND_ASSIGN(const TestOutputs plain, run_on(*gpu_device(), test));
  ASSERT_OK_AND_ASSIGN(const TestOutputs precise, run_on(*gpu_device_with_matrices(), test));
  EXPECT_EQ(plain.outputs.at("y"), precise.outputs.at("y"));
}

// f16 lacks the range of these weights and their precision.
TEST_F(VulkanCooperative, WeightsOfF32AndBf16AreMultipliedInF32) {
  Rng rng(5);
  const int64_t k = 96, n = 24;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const FormatMatrix matrix = random_matrix(dtype, k, n, rng);
    const std::vector<float> x = random_values(rng, k * 20);
    ASSERT_OK_AND_ASSIGN(const auto y, product_of(dtype, k, n, matrix.bytes, x, *gpu_device_with_matrices()));
    EXPECT_LE(relative_error(y, exact_product(matrix, k, n, x)), kProductBound);
  }
}

}  // namespace
}  // namespace tessera
