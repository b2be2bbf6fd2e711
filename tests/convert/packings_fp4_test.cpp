// Floats of 4 bits that stay in their blocks: gpt-oss, modelopt, compressed-tensors.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/convert/source/float8.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/convert/source/views.h"
#include "tests/convert/packings_support.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr float kFp4Values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// The code of value i of a row of codes, two in a byte, the first one in the low half.
uint32_t code_at(int64_t i) { return static_cast<uint32_t>(i * 7 + i / 16) % 16; }

SmallTensor codes_part(const std::string& name, const std::vector<int64_t>& shape, int64_t n_bytes) {
  SmallTensor part{.name = name, .type = "U8", .shape = shape};
  for (int64_t i = 0; i < n_bytes; ++i) part.bytes += static_cast<char>(code_at(2 * i) | code_at(2 * i + 1) << 4);
  return part;
}

std::vector<float> all_values(const Checkpoint& checkpoint, const CheckpointTensor& source, const StoredTensor& view) {
  std::vector<std::byte> bytes(to_size(view.n_elements()) * element_bytes(view.type));
  view.read(checkpoint.file_bytes(source), 0, bytes);
  std::vector<float> values(to_size(view.n_values()));
  to_floats(view.type, bytes, values);
  return values;
}

TEST(Fp4Packings, GptOssExpertsBecomeBlocks) {
  std::string scales;
  for (int i = 0; i < 12; ++i) scales += static_cast<char>(120 + i);
  const std::vector<SmallTensor> parts = {codes_part("x.experts.down_proj_blocks", {2, 3, 2, 16}, 192),
                                          {"x.experts.down_proj_scales", "U8", {2, 3, 2}, scales}};
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, open_packed(parts, R"({"quant_method":"mxfp4"})"));
  ASSERT_EQ(checkpoint.tensors().size(), 1u);
  const CheckpointTensor& tensor = checkpoint.tensors()[0];
  EXPECT_EQ(tensor.tensor.name, "x.experts.down_proj.weight");
  EXPECT_EQ(tensor.tensor.type, ElementType::mxfp4);
  EXPECT_EQ(tensor.tensor.shape, (std::vector<int64_t>{2, 3, 2}));
  const auto values = all_values(checkpoint, tensor, tensor.tensor);
  ASSERT_EQ(values.size(), 384u);
  for (int64_t i = 0; i < 384; ++i)
    EXPECT_EQ(values[to_size(i)], std::ldexp(kFp4Values[code_at(i)], static_cast<int>(120 + i / 32) - 127)) << i;
  ASSERT_OK_AND_ASSIGN(const StoredTensor middle, part_of(tensor.tensor, 1, 1, 1));
  const auto rows = all_values(checkpoint, tensor, middle);
  EXPECT_EQ(std::vector(rows.begin(), rows.begin() + 64), std::vector(values.begin() + 64, values.begin() + 128));
  EXPECT_EQ(std::vector(rows.begin() + 64, rows.end()), std::vector(values.begin() + 256, values.begin() + 320));
}

TEST(Fp4Packings, GptOssPartsThatDoNotFitAreRefused) {
  const auto refusal = [](const std::string& type, const std::vector<int64_t>& shape, const std::string& scale_type) {
    SmallTensor blocks = codes_part("x_blocks", shape, 64);
    blocks.type = type;
    return packed_refusal({blocks, {"x_scales", scale_type, {2, 2}, "1234"}}, R"({"quant_method":"mxfp4"})");
  };
  EXPECT_EQ(refusal("U8", {2, 2, 16}, "U8"), "read");
  EXPECT_EQ(refusal("U8", {2, 2, 16}, "F8_E8M0"), "read");
  EXPECT_EQ(refusal("I8", {2, 2, 16}, "U8"), R"(: tensor "x_blocks": elements of type I8, want U8)");
  EXPECT_EQ(refusal("U8", {2, 2, 16}, "I8"), R"(: tensor "x_scales": elements of type I8, want U8)");
  EXPECT_EQ(refusal("U8", {2, 32}, "U8"), R"(: tensor "x_blocks": shape [2, 32], want [2, 2, 16])");
  EXPECT_EQ(packed_refusal({codes_part("x_blocks", {2, 2, 16}, 64)}, R"({"quant_method":"mxfp4"})"),
            R"(: no tensor "x_scales")");
}

constexpr std::string_view kMixedConfig = R"({"quant_method":"fp8","weight_block_size":[2,32]})";

// Experts of 4 bits beside other matrices of 8, under both names of scales.
TEST(Fp4Packings, DeepseekExpertsBecomeBlocks) {
  std::string scales;
  for (int i = 0; i < 6; ++i) scales += static_cast<char>(124 + i);
  for (const std::string end : {".scale", ".weight_scale_inv"})
    for (const std::string type : {"I8", "U8"}) {
      SmallTensor weight = codes_part("m.w1.weight", {3, 32}, 96);
      weight.type = type;
      ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                           open_packed({weight, {"m.w1" + end, "F8_E8M0", {3, 2}, scales}}, kMixedConfig));
      ASSERT_EQ(checkpoint.tensors().size(), 1u) << end;
      const CheckpointTensor& tensor = checkpoint.tensors()[0];
      EXPECT_EQ(tensor.tensor.name, "m.w1.weight");
      EXPECT_EQ(tensor.tensor.type, ElementType::mxfp4);
      EXPECT_EQ(tensor.tensor.shape, (std::vector<int64_t>{3, 2}));
      const auto values = all_values(checkpoint, tensor, tensor.tensor);
      ASSERT_EQ(values.size(), 192u);
      for (int64_t i = 0; i < 192; ++i)
        EXPECT_EQ(values[to_size(i)], std::ldexp(kFp4Values[code_at(i)], static_cast<int>(124 + i / 32) - 127)) << i;
    }
}

TEST(Fp4Packings, DeepseekPartsThatDoNotFitAreRefused) {
  const auto refusal = [](const std::vector<int64_t>& shape, const std::string& scale_type,
                          const std::vector<int64_t>& scale_shape) {
    SmallTensor weight = codes_part("x.weight", shape, 64);
    weight.type = "I8";
    return packed_refusal({weight, {"x.scale", scale_type, scale_shape, "1234"}}, kMixedConfig);
  };
  EXPECT_EQ(refusal({2, 32}, "F8_E8M0", {2, 2}), "read");
  EXPECT_EQ(refusal({8, 8}, "F8_E8M0", {2, 2}),
            R"(: tensor "x.weight": shape [8, 8], want rows of whole blocks of 16 bytes)");
  EXPECT_EQ(refusal({2, 32}, "F8_E8M0", {4, 1}), R"(: tensor "x.scale": shape [4, 1], want [2, 2])");
  EXPECT_EQ(refusal({2, 32}, "U8", {2, 2}), R"(: tensor "x.scale": elements of type U8, want F32, F16 or BF16)");
}

SmallTensor one_float(const std::string& name, float value) {
  return {.name = name, .type = "F32", .shape = {}, .bytes = vector_bytes(std::vector{value})};
}

// Two rows of 128 values, whose scales have both signs.
std::string nvfp4_scales() {
  std::string scales;
  for (int i = 0; i < 16; ++i) scales += static_cast<char>(0x30 + i + (i % 2 == 1 ? 128 : 0));
  return scales;
}

float factor_of(const Checkpoint& checkpoint, const std::string& name) {
  const CheckpointTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return -1;
  EXPECT_EQ(tensor->tensor.type, ElementType::f32);
  EXPECT_EQ(tensor->tensor.shape, std::vector<int64_t>{1});
  return floats_at(checkpoint, *tensor, 0, 1)[0];
}

TEST(Fp4Packings, ModeloptKeepsBlocksAndFactors) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       open_packed({codes_part("m.a.weight", {2, 64}, 128),
                                    {"m.a.weight_scale", "F8_E4M3", {2, 8}, nvfp4_scales()},
                                    one_float("m.a.weight_scale_2", 0.25f),
                                    one_float("m.a.input_scale", 3)},
                                   R"({"quant_method":"modelopt","quant_algo":"NVFP4"})"));
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  const CheckpointTensor* tensor = checkpoint.find("m.a.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->tensor.type, ElementType::nvfp4);
  EXPECT_EQ(tensor->tensor.shape, (std::vector<int64_t>{2, 2}));
  const auto values = all_values(checkpoint, *tensor, tensor->tensor);
  ASSERT_EQ(values.size(), 256u);
  for (int64_t i = 0; i < 256; ++i) {
    const float scale = f8_e4m3_to_f32(static_cast<uint8_t>(0x30 + i / 16));
    EXPECT_EQ(values[to_size(i)], kFp4Values[code_at(i)] * scale) << i;
  }
  EXPECT_EQ(factor_of(checkpoint, "m.a.scale"), 0.25f);
  EXPECT_EQ(factor_of(checkpoint, "m.a.input_scale"), 3);
}

TEST(Fp4Packings, CompressedTensorsHaveInverseFactors) {
  const auto open = [](const std::string& stem, float scale, float input) {
    return open_packed({codes_part(stem + ".weight_packed", {2, 64}, 128),
                        {stem + ".weight_scale", "F8_E4M3", {2, 8}, nvfp4_scales()},
                        one_float(stem + ".weight_global_scale", scale),
                        one_float(stem + ".input_global_scale", input)},
                       R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"})");
  };
  ASSERT_OK_AND_ASSIGN(const Checkpoint some, open("m.a", 4, 0.5f));
  EXPECT_EQ(some.find("m.a.weight")->tensor.type, ElementType::nvfp4);
  EXPECT_EQ(factor_of(some, "m.a.scale"), 0.25f);
  EXPECT_EQ(factor_of(some, "m.a.input_scale"), 2);
  ASSERT_OK_AND_ASSIGN(const Checkpoint ones, open("m.a", 1, 1));
  EXPECT_EQ(ones.tensors().size(), 1u);  // a factor of 1 is left out
  ASSERT_OK_AND_ASSIGN(const Checkpoint expert, open("m.experts.0.up", 1, 1));
  EXPECT_EQ(factor_of(expert, "m.experts.0.up.scale"), 1);  // except where others are stacked on it
  EXPECT_EQ(factor_of(expert, "m.experts.0.up.input_scale"), 1);
  const auto zero = open("m.a", 0, 1);
  ASSERT_FALSE(zero);
  EXPECT_NE(zero.error().message().find(R"(tensor "m.a.weight_global_scale": the inverse is not finite)"),
            std::string::npos);
}

TEST(Fp4Packings, NvidiaPartsThatDoNotFitAreRefused) {
  const SmallTensor weight = codes_part("a.weight", {2, 64}, 128);
  const SmallTensor scale{"a.weight_scale", "F8_E4M3", {2, 8}, nvfp4_scales()},
      factor = one_float("a.weight_scale_2", 2);
  const auto changed = [](SmallTensor part, const std::string& type, const std::vector<int64_t>& shape) {
    part.type = type;
    part.shape = shape;
    return part;
  };
  const auto refusal = [](const std::vector<SmallTensor>& parts) {
    return packed_refusal(parts, R"({"quant_method":"modelopt","quant_algo":"NVFP4"})");
  };
  EXPECT_EQ(refusal({weight, scale, factor}), "read");
  EXPECT_EQ(refusal({weight, factor}), R"(: no tensor "a.weight_scale")");
  EXPECT_EQ(refusal({changed(weight, "I8", {2, 64}), scale, factor}),
            R"(: tensor "a.weight": elements of type I8, want U8)");
  EXPECT_EQ(refusal({weight, changed(scale, "U8", {2, 8}), factor}),
            R"(: tensor "a.weight_scale": elements of type U8, want F8_E4M3)");
  EXPECT_EQ(refusal({changed(weight, "U8", {8, 16}), scale, factor}),
            R"(: tensor "a.weight": shape [8, 16], want rows of whole blocks of 32 bytes)");
  EXPECT_EQ(refusal({{"a.weight", "U8", {}, "1"}, scale, factor}),
            R"(: tensor "a.weight": shape [], want rows of whole blocks of 32 bytes)");
  EXPECT_EQ(refusal({weight, changed(scale, "F8_E4M3", {4, 4}), factor}),
            R"(: tensor "a.weight_scale": shape [4, 4], want [2, 8])");
  EXPECT_EQ(refusal({weight, scale, one_float("a.weight_scale_2", NAN)}), R"(: tensor "a.weight_scale_2": not finite)");
  EXPECT_EQ(refusal({weight, scale, {"a.weight_scale_2", "I32", {1}, "1234"}}),
            R"(: tensor "a.weight_scale_2": elements of type I32, want F32, F16 or BF16)");
  EXPECT_EQ(refusal({weight, scale, factor, {"a.input_scale", "F32", {2}, "12345678"}}),
            R"(: tensor "a.input_scale": shape [2], want one element)");
}

}  // namespace
}  // namespace tessera::convert
