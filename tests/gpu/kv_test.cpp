// Rows stored into and loaded from a cache of every format on the device, with the same bytes as on the CPU.
#include <limits>

#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

class GpuKv : public GpuTest, public ::testing::WithParamInterface<DType> {};

INSTANTIATE_TEST_SUITE_P(All, GpuKv,
                         ::testing::Values(DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1,
                                           DType::q5_0, DType::q5_1, DType::iq4_nl),
                         [](const auto& info) { return std::string(tessera::info(info.param).name); });

constexpr int64_t kHeads = 3, kKvTokens = 9, kKvBlocks = 2;

// Values of all magnitudes, blocks of zeros, of one value and of equal extremes with both signs, and values that are
// not finite.
std::vector<float> rows_of(int64_t dim) {
  Rng rng(5);
  std::vector<float> values;
  for (int64_t row = 0; row < kHeads * kKvTokens; ++row) {
    const float limit = std::ldexp(1.0f, static_cast<int>(row * 3 % 29) - 16);
    for (const float v : random_values(rng, dim, limit)) values.push_back(v);
    const auto begin = values.end() - dim;
    if (row == 4) std::fill(begin, values.end(), 0.0f);
    if (row == 5) std::fill(begin, values.end(), -0.75f);
    if (row == 6) *begin = limit, *(begin + 1) = -limit;
    if (row == 7) *begin = -limit, *(begin + 2) = limit;
    if (row == 8) *(begin + 3) = 0.0f, *(begin + 4) = -0.0f;
    if (row == 9) *(begin + 1) = 1e30f;
  }
  return values;
}

// Stores rows of floats in some cells, skips others, and loads all cells of the first two blocks.
TestGraph graph_of(DType type, int64_t dim) {
  std::vector<int32_t> cells = {0, 63, 64, 1, 2, -1, 127, 3, 65}, load;
  for (int32_t c = 0; c < 128; ++c) load.push_back(c);
  const size_t bytes = nbytes(type, {dim, 64, kHeads, kKvBlocks}).value();
  Bytes before(bytes);
  for (size_t i = 0; i < bytes; ++i) before[i] = static_cast<std::byte>(i * 7 % 113);  // never NaN
  return {.tensors = {{"cache", type, {dim, 64, kHeads, kKvBlocks}, before}},
          .build =
              [=](GraphBuilder& b, const std::vector<Value>& tensors) {
                const Value rows = b.input("rows", DType::f32, {dim, kHeads, kKvTokens});
                const Value cache = b.kv_store(tensors[0], rows, b.input("cells", DType::i32, {kKvTokens}), KvSide::v);
                b.output(b.kv_load(cache, b.input("load", DType::i32, {128}), KvSide::v), "y");
              },
          .inputs = {{"rows", bytes_of(rows_of(dim))}, {"cells", bytes_of(cells)}, {"load", bytes_of(load)}}};
}

// For V, whose rows have the same layout in the caches of both devices. Also compares the cells next to the stored
// ones.
TEST_P(GpuKv, BytesAreTheCpus) {
  const auto cpu = cpu::create_device("").value();
  for (const int64_t dim : {32, 96, 128}) {
    const TestGraph test = graph_of(GetParam(), dim);
    ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
    ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
    EXPECT_EQ(got.outputs.at("y"), expected.outputs.at("y")) << dim;
    EXPECT_EQ(got.tensors[0], expected.tensors[0]) << dim;
  }
}

// Loaded rows can be stored again without change, as for saved sequences.
TEST_P(GpuKv, RowsGoBackAsTheyAre) {
  const DType type = GetParam();
  const int64_t dim = 96;
  TestGraph test = graph_of(type, dim);
  const size_t bytes = nbytes(type, {dim, kHeads, kKvTokens}).value();
  Bytes rows(bytes);
  for (size_t i = 0; i < bytes; ++i) rows[i] = static_cast<std::byte>(i * 11 % 127);
  test.inputs["rows"] = rows;
  test.build = [=](GraphBuilder& b, const std::vector<Value>& tensors) {
    const Value from = b.input("rows", type, {dim, kHeads, kKvTokens});
    const Value cache = b.kv_store(tensors[0], from, b.input("cells", DType::i32, {kKvTokens}), KvSide::k);
    b.output(b.kv_load(cache, b.input("load", DType::i32, {128}), KvSide::k), "y");
  };
  ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
  const size_t token = bytes / kKvTokens;
  const Bytes& y = got.outputs.at("y");
  for (const auto& [cell, from] : {std::pair{0, 0}, {63, 1}, {64, 2}, {1, 3}, {127, 6}, {65, 8}}) {
    const Bytes stored(y.begin() + static_cast<std::ptrdiff_t>(token) * cell,
                       y.begin() + static_cast<std::ptrdiff_t>(token) * (cell + 1));
    const Bytes wanted(rows.begin() + static_cast<std::ptrdiff_t>(token) * from,
                       rows.begin() + static_cast<std::ptrdiff_t>(token) * (from + 1));
    EXPECT_EQ(stored, wanted) << cell;
  }
}

using GpuKvOdd = GpuTest;

TEST_F(GpuKvOdd, RowsOfAnOddNumberOfHalves) {
  const auto cpu = cpu::create_device("").value();
  for (const DType type : {DType::f16, DType::bf16}) {
    const TestGraph test = graph_of(type, 7);
    ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
    ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
    EXPECT_EQ(got.outputs.at("y"), expected.outputs.at("y")) << info(type).name;
  }
}

// Values that are not finite: as on the CPU, which skips NaN in the formats of four and five bits.
TEST_F(GpuKvOdd, NaNsAndInfinities) {
  const auto cpu = cpu::create_device("").value();
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl}) {
    TestGraph test = graph_of(type, 32);
    std::vector<float> rows = rows_of(32);
    rows[3] = std::numeric_limits<float>::quiet_NaN();
    rows[32] = std::numeric_limits<float>::quiet_NaN();
    rows[70] = std::numeric_limits<float>::infinity();
    test.inputs["rows"] = bytes_of(rows);
    ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
    ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
    EXPECT_EQ(got.outputs.at("y"), expected.outputs.at("y")) << info(type).name;
  }
}

TEST_F(GpuKvOdd, AnUnsupportedNodeIsNamed) {
  EXPECT_ERROR(run_on(*gpu_device(), {.tensors = {{"cache", DType::q4_k, {256, 64, 1, 1}, {}}},
                                      .build =
                                          [](GraphBuilder& b, const std::vector<Value>& tensors) {
                                            b.output(b.kv_load(tensors[0], b.input("c", DType::i32, {1}), KvSide::k),
                                                     "y");
                                          },
                                      .inputs = {}}),
               std::string(kGpuName) + " cannot run kv_load cache q4_K [256, 64]");
}

}  // namespace
}  // namespace tessera
