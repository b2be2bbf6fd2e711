// Rows of a table of every format as the scalar truth decodes them; rows of another type and with scales of their own
// on the device against the CPU.

#include "tests/gpu/formats_testing.h"
#include "tests/gpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

class GpuRowFormats : public GpuTest, public ::testing::WithParamInterface<DType> {};

INSTANTIATE_TEST_SUITE_P(All, GpuRowFormats, ::testing::ValuesIn(weight_formats()),
                         [](const auto& info) { return std::string(tessera::info(info.param).name); });

TEST_P(GpuRowFormats, RowsAreTheScalarTruths) {
  const DType dtype = GetParam();
  Rng rng(1);
  const int64_t k = info(dtype).is_blocked() ? 512 : 45;
  const FormatMatrix matrix = random_matrix(dtype, k, 6, rng);
  const std::vector<int32_t> ids = {5, 0, 3};
  ASSERT_OK_AND_ASSIGN(const TestOutputs got,
                       run_on(*gpu_device(), {.tensors = {{"w", dtype, {k, 6}, matrix.bytes}},
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

using GpuRows = GpuTest;

TestGraph four_rows_graph(DType dtype, const Bytes& table, const std::vector<int32_t>& ids) {
  const auto n_ids = std::ssize(ids);
  return {.tensors = {{"table", dtype, {11, 4}, table}},
          .build =
              [n_ids](GraphBuilder& b, const std::vector<Value>& tensors) {
                b.output(b.get_rows(tensors[0], b.input("ids", DType::i32, {n_ids})), "y");
              },
          .inputs = {{"ids", bytes_of(ids)}}};
}

// As floats, some of these integers would be NaN, denormal or -0.
TEST_F(GpuRows, RowsOfIntegersKeepTheirBits) {
  std::vector<int32_t> table;
  for (uint32_t i = 0; i < 44; ++i) table.push_back(static_cast<int32_t>(i * 0x7fc00001u + i / 3 * 0x80000000u));
  for (const Device* device : {gpu_device(), gpu_device_of_64_lanes()}) {
    ASSERT_OK_AND_ASSIGN(const TestOutputs got,
                         run_on(*device, four_rows_graph(DType::i32, bytes_of(table), {3, 0, 3, 2})));
    std::vector<int32_t> expected;
    for (const int row : {3, 0, 3, 2})
      expected.insert(expected.end(), table.begin() + 11 * row, table.begin() + 11 * row + 11);
    EXPECT_EQ(values_of<int32_t>(got.outputs.at("y")), expected);
  }
}

TEST_F(GpuRows, IdsOutOfRangeFailTheRun) {
  for (const DType dtype : {DType::f32, DType::i32})
    for (const int32_t id : {-1, 4})
      EXPECT_ERROR(run_on(*gpu_device(), four_rows_graph(dtype, {}, {1, id})),
                   "get_rows y: row " + std::to_string(id) + ", want 0 to 3");
}

const std::vector<UnaryCase> kCasts = {
    {"cast", [](GraphBuilder& b, Value x) { return b.cast(x, DType::f32); }},
    {"through f16", [](GraphBuilder& b, Value x) { return b.cast(b.cast(x, DType::f16), DType::f32); }},
    {"through bf16", [](GraphBuilder& b, Value x) { return b.cast(b.cast(x, DType::bf16), DType::f32); }},
};

TEST_F(GpuRows, CastsAreTheCpus) { expect_unary_as_on_cpu(kCasts); }

TEST_F(GpuRows, CastsOfLargeAndStrangeValuesAreTheCpus) { expect_extremes_as_on_cpu(kCasts); }

TEST_F(GpuRows, AddScaledIsTheCpus) {
  Rng rng(4);
  for (const int64_t d_rows : {1, 3})
    expect_as_on_cpu({.tensors = {},
                      .build =
                          [&](GraphBuilder& b, const auto&) {
                            b.output(
                                b.add_scaled(b.input("a", DType::f32, {40, 3}), b.input("d", DType::f32, {40, d_rows}),
                                             b.input("s", DType::f32, {1, 3}), 0.7f),
                                "y");
                          },
                      .inputs = {{"a", bytes_of(random_values(rng, 120))},
                                 {"d", bytes_of(random_values(rng, 40 * d_rows))},
                                 {"s", bytes_of<float>({0.5f, 0.0f, -2.0f})}}},
                     kRowBound, "add_scaled");
}

}  // namespace
}  // namespace tessera
