// Weights of 8 bits with scales: fp8, compressed-tensors, modelopt.
#include <gtest/gtest.h>

#include "tessera/base/half.h"
#include "tessera/convert/source/float8.h"
#include "tests/convert/packings_support.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr std::string_view kFp8Config = R"({"quant_method":"fp8","weight_block_size":[2,3]})";
constexpr std::string_view kChannelConfig = R"({"quant_method":"compressed-tensors","format":"float-quantized",
  "config_groups":{"group_0":{"weights":{"num_bits":8,"group_size":null}}}})";

// Weight i of a matrix; none is NaN.
uint8_t weight_byte_at(int64_t i) { return static_cast<uint8_t>(i * 37 % 120 + (i % 3 == 0 ? 128 : 0)); }

SmallTensor byte_weights(const std::string& name, const std::vector<int64_t>& shape,
                         const std::string& type = "F8_E4M3") {
  SmallTensor tensor{.name = name, .type = type, .shape = shape};
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  for (int64_t i = 0; i < n; ++i) tensor.bytes += static_cast<char>(weight_byte_at(i));
  return tensor;
}

SmallTensor float_scales(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& values) {
  return {.name = name, .type = "F32", .shape = shape, .bytes = vector_bytes(values)};
}

float fp8_at(int64_t i) { return f8_e4m3_to_f32(weight_byte_at(i)); }

TEST(ScaledPackings, BlocksHaveTheirScales) {
  const std::vector<float> scale = {1.5f, 2, 3, 4};
  const auto checkpoint =
      open_packed({byte_weights("a.weight", {3, 5}), float_scales("a.weight_scale_inv", {2, 2}, scale)}, kFp8Config);
  expect_matrix(checkpoint, "a.weight", 3, 5, [&](int64_t row, int64_t column) {
    return fp8_at(row * 5 + column) * scale[to_size(row / 2 * 2 + column / 3)];
  });
  EXPECT_EQ(checkpoint->tensors().size(), 1u);
}

// Exponents of 127 and more.
TEST(ScaledPackings, ScalesMayBePowersOfTwo) {
  const auto checkpoint = open_packed(
      {byte_weights("a.weight", {3, 5}), {"a.scale", "F8_E8M0", {2, 2}, std::string("\x7f\x80\x7e\x82")}}, kFp8Config);
  expect_matrix(checkpoint, "a.weight", 3, 5, [&](int64_t row, int64_t column) {
    constexpr float kScales[] = {1, 2, 0.5f, 8};
    return fp8_at(row * 5 + column) * kScales[row / 2 * 2 + column / 3];
  });
  EXPECT_EQ(checkpoint->tensors().size(), 1u);
}

TEST(ScaledPackings, ScalesWithoutWeightsAreTensors) {
  const SmallTensor scale = float_scales("hc.scale", {2}, {1, 2});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, open_packed({scale}, kFp8Config));
  EXPECT_NE(checkpoint.find("hc.scale"), nullptr);
  EXPECT_EQ(packed_refusal({scale, {"hc.weight", "F32", {1}, "1234"}}, kFp8Config),
            R"(: tensor "hc.weight": elements of type F32, want F8_E4M3, F8_E5M2 or I8)");
}

TEST(ScaledPackings, MatricesOneAfterAnotherHaveScalesOneAfterAnother) {
  const std::vector<float> scale = {1.5f, 2, 3, 4, 5, 6, 7, 8};
  const auto checkpoint = open_packed(
      {byte_weights("x.experts", {2, 3, 5}), float_scales("x.experts_scale_inv", {2, 2, 2}, scale)}, kFp8Config);
  ASSERT_OK(checkpoint);
  const CheckpointTensor* tensor = checkpoint->find("x.experts");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->tensor.shape, (std::vector<int64_t>{2, 3, 5}));
  const auto values = floats_at(*checkpoint, *tensor, 0, 30);
  for (int64_t i = 0; i < 30; ++i)
    EXPECT_EQ(values[to_size(i)], fp8_at(i) * scale[to_size(i / 15 * 4 + i % 15 / 5 / 2 * 2 + i % 5 / 3)]) << i;
}

TEST(ScaledPackings, OneScaleForAll) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {1}, {1, 1}}) {
    const auto checkpoint =
        open_packed({byte_weights("a.weight", {3, 5}, "F8_E5M2"), float_scales("a.weight_scale_inv", shape, {3})},
                    R"({"quant_method":"fp8"})");
    expect_matrix(checkpoint, "a.weight", 3, 5,
                  [&](int64_t row, int64_t column) { return f8_e5m2_to_f32(weight_byte_at(row * 5 + column)) * 3.0f; });
  }
  const auto experts = open_packed({byte_weights("a.weight", {2, 3, 5}), float_scales("a.weight_scale_inv", {1}, {3})},
                                   R"({"quant_method":"fp8"})");
  ASSERT_OK(experts);
  EXPECT_EQ(floats_at(*experts, experts->tensors()[0], 29, 1)[0], fp8_at(29) * 3);
}

TEST(ScaledPackings, RowsHaveScalesOfTheSmallFloatTypes) {
  const std::vector<uint16_t> bf16 = {f32_to_bf16(1.5f), f32_to_bf16(2), f32_to_bf16(-3)};
  const std::vector<uint16_t> f16 = {f32_to_f16(1.5f), f32_to_f16(2), f32_to_f16(-3)};
  const auto check = [&](const std::string& type, const std::vector<uint16_t>& halves,
                         const std::vector<int64_t>& shape) {
    const auto checkpoint =
        open_packed({byte_weights("a.weight", {3, 5}),
                     {.name = "a.weight_scale", .type = type, .shape = shape, .bytes = vector_bytes(halves)},
                     float_scales("a.input_scale", {1}, {9})},
                    kChannelConfig);
    expect_matrix(checkpoint, "a.weight", 3, 5, [&](int64_t row, int64_t column) {
      return fp8_at(row * 5 + column) * (row == 0 ? 1.5f : row == 1 ? 2.0f : -3.0f);
    });
    EXPECT_EQ(checkpoint->find("a.input_scale"), nullptr);
  };
  check("BF16", bf16, {3, 1});
  check("F16", f16, {3, 1});
  check("F16", f16, {3});
}

TEST(ScaledPackings, IntegersWithZerosInGroupsAndBlocks) {
  const std::vector<float> scale = {1.5f, 2, 3, 4, 5, 6};
  const std::vector<int8_t> zeros = {1, -2, 3, -4, 5, -128};
  const auto checked = [&](const std::string& group, const std::vector<int64_t>& shape, int64_t block_rows,
                           int64_t block_columns) {
    const auto checkpoint = open_packed(
        {byte_weights("a.weight", {3, 5}, "I8"),
         float_scales("a.weight_scale", shape, {scale.begin(), scale.begin() + shape[0] * shape[1]}),
         {.name = "a.weight_zero_point",
          .type = "I8",
          .shape = shape,
          .bytes = vector_bytes(std::vector(zeros.begin(), zeros.begin() + shape[0] * shape[1]))}},
        R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{"weights":)" + group +
            "}}}");
    expect_matrix(checkpoint, "a.weight", 3, 5, [&](int64_t row, int64_t column) {
      const auto index = to_size(row / block_rows * shape[1] + column / block_columns);
      return (static_cast<float>(static_cast<int8_t>(weight_byte_at(row * 5 + column))) - zeros[index]) * scale[index];
    });
  };
  checked(R"({"num_bits":8,"group_size":4})", {3, 2}, 1, 4);
  checked(R"({"num_bits":8,"group_size":-1})", {3, 1}, 1, 5);
  checked(R"({"num_bits":8,"block_structure":[2,2]})", {2, 3}, 2, 2);
}

TEST(ScaledPackings, ModeloptHasFp8WithOneScale) {
  const auto checkpoint = open_packed({byte_weights("a.weight", {3, 5}), float_scales("a.weight_scale", {}, {3}),
                                       float_scales("a.input_scale", {}, {9}), float_scales("a.k_scale", {}, {9})},
                                      R"({"quant_algo":"FP8"})");
  expect_matrix(checkpoint, "a.weight", 3, 5,
                [&](int64_t row, int64_t column) { return fp8_at(row * 5 + column) * 3; });
  EXPECT_EQ(checkpoint->tensors().size(), 1u);
}

TEST(ScaledPackings, PlainTensorsStayAndOtherScalesGo) {
  const auto checkpoint = open_packed({float_scales("first", {2}, {1, 2}), float_scales("a.weight_scale_inv", {1}, {3}),
                                       byte_weights("a.weight", {3, 5}), float_scales("a.activation_scale", {1}, {9}),
                                       float_scales("a.v_scale", {1}, {9}), byte_weights("b.weight", {2, 2})},
                                      R"({"quant_method":"fp8"})");
  ASSERT_OK(checkpoint);
  std::vector<std::string> names;
  for (const CheckpointTensor& tensor : checkpoint->tensors()) names.push_back(tensor.tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"first", "a.weight", "b.weight"}));
  EXPECT_EQ(floats_at(*checkpoint, *checkpoint->find("first"), 1, 1)[0], 2);
  EXPECT_EQ(checkpoint->find("b.weight")->tensor.type, ElementType::f8_e4m3);
}

TEST(ScaledPackings, PartsThatDoNotFitAreRefused) {
  const SmallTensor weight = byte_weights("a.weight", {3, 5}),
                    scale = float_scales("a.weight_scale_inv", {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(packed_refusal({weight, scale}, kFp8Config), "read");
  EXPECT_EQ(packed_refusal({scale}, kFp8Config), R"(: no tensor "a.weight")");
  EXPECT_EQ(packed_refusal({byte_weights("a.weight", {3, 5}, "U8"), scale}, kFp8Config),
            R"(: tensor "a.weight": elements of type U8, want F8_E4M3, F8_E5M2 or I8)");
  EXPECT_EQ(packed_refusal({byte_weights("a.weight", {15}), scale}, kFp8Config),
            R"(: tensor "a.weight": shape [15], want a matrix)");
  EXPECT_EQ(packed_refusal({weight, byte_weights("a.weight_scale_inv", {2, 2})}, kFp8Config),
            R"(: tensor "a.weight_scale_inv": elements of type F8_E4M3, want F32, F16 or BF16)");
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{4}, {4, 1}, {1, 4}, {2, 2, 1}, {1, 2, 2}})
    EXPECT_EQ(
        packed_refusal({weight, float_scales("a.weight_scale_inv", shape, {1, 2, 3, 4})}, kFp8Config),
        ": tensor \"a.weight_scale_inv\": shape " + extents_text(shape) + " does not fit weights of shape [3, 5]");
  EXPECT_EQ(packed_refusal({weight, scale}, R"({"quant_method":"fp8"})").substr(0, 50),
            R"(: tensor "a.weight_scale_inv": shape [2, 2] does n)");
  const SmallTensor row_scale = float_scales("a.weight_scale", {3, 1}, {1, 2, 3});
  const auto with_zeros = [&](const SmallTensor& zeros) {
    return packed_refusal({weight, row_scale, zeros}, kChannelConfig);
  };
  EXPECT_EQ(with_zeros(byte_weights("a.weight_zero_point", {3, 1}, "I8")), "read");
  EXPECT_EQ(with_zeros(byte_weights("a.weight_zero_point", {3, 1}, "U8")),
            R"(: tensor "a.weight_zero_point": elements of type U8, want I8)");
  EXPECT_EQ(with_zeros(byte_weights("a.weight_zero_point", {3}, "I8")),
            R"(: tensor "a.weight_zero_point": shape [3], want [3, 1])");
}

TEST(ScaledPackings, AMatrixWithoutElementsIsRead) {
  EXPECT_EQ(
      packed_refusal({byte_weights("a.weight", {0, 5}), float_scales("a.weight_scale_inv", {1}, {1})}, kFp8Config),
      "read");
  EXPECT_EQ(
      packed_refusal({byte_weights("a.weight", {5, 0}), float_scales("a.weight_scale_inv", {1}, {1})}, kFp8Config),
      "read");
}

}  // namespace
}  // namespace tessera::convert
