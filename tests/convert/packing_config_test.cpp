// quantization_config of config.json, and groups of parts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/convert/packings_support.h"

namespace tessera::convert {
namespace {

using namespace testing;

Result<std::optional<PackingConfig>> read_packing(const std::string& quantization) {
  TESSERA_ASSIGN(const HubConfig config,
                 HubConfig::of(Json::parse(R"({"quantization_config":)" + quantization + "}"), "c.json"));
  return read_packing_config(config);
}

std::string packing_error(const std::string& quantization) {
  const auto packing = read_packing(quantization);
  if (packing) return "read";
  const std::string message = packing.error().message(), begin = "c.json, quantization_config";
  EXPECT_TRUE(message.starts_with(begin)) << message;
  return message.substr(begin.size());
}

TEST(PackingConfig, ModelsWithoutItHaveNone) {
  ASSERT_OK_AND_ASSIGN(const HubConfig config, HubConfig::of(Json::parse("{}"), "c.json"));
  ASSERT_OK_AND_ASSIGN(const auto packing, read_packing_config(config));
  EXPECT_FALSE(packing);
  ASSERT_OK_AND_ASSIGN(const auto null, read_packing("null"));
  EXPECT_FALSE(null);
}

TEST(PackingConfig, NumbersOfEachMethod) {
  ASSERT_OK_AND_ASSIGN(const auto gptq, read_packing(R"({"quant_method":"gptq","bits":4,"group_size":128})"));
  EXPECT_EQ(gptq->method, "gptq");
  EXPECT_TRUE(gptq->has_shifted_zeros);
  ASSERT_EQ(gptq->schemes.size(), 1u);
  EXPECT_EQ(gptq->schemes[0].bits, 4);
  EXPECT_EQ(gptq->schemes[0].block_columns, 128);
  ASSERT_OK_AND_ASSIGN(const auto compressed,
                       read_packing(R"({"quant_method":"compressed-tensors","config_groups":{"a":{"format":null,
                         "weights":{"num_bits":8,"block_structure":[64,32]}},"b":{"weights":null}}})"));
  ASSERT_EQ(compressed->schemes.size(), 1u);
  EXPECT_EQ(compressed->schemes[0].bits, 8);
  EXPECT_EQ(compressed->schemes[0].block_rows, 64);
  EXPECT_EQ(compressed->schemes[0].block_columns, 32);
  EXPECT_TRUE(compressed->has_inverse_scales);
}

TEST(PackingConfig, OtherMethodsAndFormsAreRefusedByName) {
  EXPECT_EQ(packing_error("3"), ": no object");
  EXPECT_EQ(packing_error("{}"), ": no quant_method");
  EXPECT_EQ(packing_error(R"({"quant_method":3})"), ": quant_method is 3, want a string");
  EXPECT_EQ(
      packing_error(R"({"quant_method":"bitsandbytes"})"),
      R"(: quant_method is "bitsandbytes", want one of modelopt, fp8, gptq, awq, bitnet, mxfp4, compressed-tensors)");
  EXPECT_EQ(packing_error(R"({"quant_algo":"W4A8"})"),
            R"(: quant_algo is "W4A8", want one of nvfp4, fp8, mixed_precision)");
  EXPECT_EQ(packing_error(R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})"),
            R"(: checkpoint_format is "marlin", want one of gptq, gptq_v2)");
  EXPECT_EQ(packing_error(R"({"quant_method":"gptq"})"), ": no bits");
  EXPECT_EQ(packing_error(R"({"quant_method":"gptq","bits":5})"), ": bits is 5, want one of 2, 3, 4, 8");
  EXPECT_EQ(packing_error(R"({"quant_method":"gptq","bits":0})"), ": bits is 0, want an integer from 1 to 8");
  EXPECT_EQ(packing_error(R"({"quant_method":"gptq","bits":9})"), ": bits is 9, want an integer from 1 to 8");
  EXPECT_EQ(packing_error(R"({"quant_method":"gptq","bits":4,"group_size":-2})"),
            ": group_size is -2, want an integer from -1 to 2147483648");
  EXPECT_EQ(packing_error(R"({"quant_method":"awq","bits":4,"version":"gemv"})"),
            R"(: version is "gemv", want one of gemm)");
  EXPECT_EQ(packing_error(R"({"quant_method":"awq","bits":8})"), ": bits is 8, want 4");
  EXPECT_EQ(packing_error(R"({"quant_method":"fp8","weight_block_size":[128]})"),
            ": weight_block_size has 1 numbers, want 2");
  EXPECT_EQ(packing_error(R"({"quant_method":"fp8","weight_block_size":[0,1]})"),
            ": weight_block_size is [0,1], want a list of integers from 1 to 2147483648");
  const auto compressed = [](const std::string& members) {
    return packing_error(R"({"quant_method":"compressed-tensors",)" + members + "}");
  };
  EXPECT_EQ(compressed(R"("format":"marlin-24")"),
            R"(: format is "marlin-24", want one of float-quantized, int-quantized, naive-quantized, pack-quantized, )"
            "nvfp4-pack-quantized, mixed-precision");
  EXPECT_EQ(compressed(R"("config_groups":3)"), ": config_groups is no object of at most 1000 groups");
  EXPECT_EQ(compressed(R"("config_groups":{"g":3})"), R"(, "g": no object)");
  EXPECT_EQ(compressed(R"("config_groups":{"g":{"format":"x"}})").substr(0, 28), R"(, "g": format is "x", want o)");
  EXPECT_EQ(compressed(R"("config_groups":{"g":{"weights":3}})"), R"(, "g", weights: no object)");
  EXPECT_EQ(compressed(R"("config_groups":{"g":{"weights":{}}})"), R"(, "g", weights: no num_bits)");
  EXPECT_EQ(compressed(R"("config_groups":{"g":{"weights":{"num_bits":8,"block_structure":"2x2"}}})"),
            R"(, "g", weights: block_structure is "2x2", want a list of integers from 1 to 2147483648)");
  std::string groups = R"("config_groups":{"0":{})";
  for (int i = 1; i < 1000; ++i) groups += fmt::format(R"(,"{}":{{}})", i);
  EXPECT_EQ(compressed(groups + "}"), "read");
  EXPECT_EQ(compressed(groups + R"(,"x":{}})"), ": config_groups is no object of at most 1000 groups");
}

TEST(PackingGroups, ResultsHaveNamesOfTheirOwn) {
  const SmallTensor weight{.name = "a", .type = "I8", .shape = {1, 1}, .bytes = "1"};
  const SmallTensor scale{.name = "a_scale_inv", .type = "F32", .shape = {1}, .bytes = "1234"};
  const auto refusal = packed_refusal({weight, scale}, R"({"quant_method":"fp8"})");
  EXPECT_EQ(refusal, "read");
  // A group whose result has the name of another tensor.
  EXPECT_EQ(packed_refusal({{.name = "x_blocks", .type = "U8", .shape = {1, 16}, .bytes = std::string(16, 'x')},
                            {.name = "x_scales", .type = "U8", .shape = {1}, .bytes = "x"},
                            {.name = "x.weight", .type = "U8", .shape = {1}, .bytes = "x"}},
                           R"({"quant_method":"mxfp4"})"),
            R"(: two tensors "x.weight")");
}

TEST(PackingGroups, ModeloptMayHaveAFileOfItsOwn) {
  const std::string tensors = safetensors_of({{.name = "a.weight", .type = "F8_E4M3", .shape = {1, 1}, .bytes = "\x38"},
                                              {"a.weight_scale", "F32", {}, vector_bytes(std::vector{3.0f})}});
  const auto open = [&](const std::string& file) -> Result<Checkpoint> {
    TESSERA_ASSIGN(
        Checkpoint checkpoint,
        Checkpoint::open(write_folder(
            "modelopt", {{"model.safetensors", tensors}, {"config.json", "{}"}, {"hf_quant_config.json", file}})));
    TESSERA_ASSIGN(const HubConfig config, HubConfig::read(checkpoint));
    TESSERA_TRY(unpack_tensors(checkpoint, config));
    return checkpoint;
  };
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, open(R"({"quantization":{"quant_algo":"FP8"}})"));
  EXPECT_EQ(floats_at(checkpoint, checkpoint.tensors()[0], 0, 1)[0], 3);
  EXPECT_ERROR(open(R"({"quantization":{"quant_algo":"W4A16"}})"),
               R"(hf_quant_config.json, quantization_config: quant_algo is "W4A16")");
  for (const char* file : {"[]", "{}"}) {
    ASSERT_OK_AND_ASSIGN(const Checkpoint plain, open(file));
    EXPECT_EQ(plain.tensors().size(), 2u);
  }
}

// PyTorch files may hold transposed matrices.
TEST(PackingGroups, PartsWithStridesAreRefused) {
  const std::string object = pickle::whole(pickle::dictionary(
      {{"a.weight",
        pickle::tensor({.key = "0", .n_stored = 4, .shape = {2, 2}, .strides = {1, 2}, .storage = "CharStorage"})},
       {"a.weight_scale_inv", pickle::tensor({.key = "1", .n_stored = 1, .shape = {1}, .strides = {1}})}}));
  const std::string folder =
      write_folder("strided", {{"pytorch_model.bin", zip_archive({{.name = "m/data.pkl", .bytes = object},
                                                                  {.name = "m/data/0", .bytes = "1234"},
                                                                  {.name = "m/data/1", .bytes = "1234"}})},
                               {"config.json", R"({"quantization_config":{"quant_method":"fp8"}})"}});
  ASSERT_OK_AND_ASSIGN(Checkpoint checkpoint, Checkpoint::open(folder));
  ASSERT_OK_AND_ASSIGN(const HubConfig config, HubConfig::read(checkpoint));
  EXPECT_ERROR(unpack_tensors(checkpoint, config),
               R"(: tensor "a.weight": elements in another order than that of the shape)");
  EXPECT_NE(checkpoint.find("a.weight_scale_inv"), nullptr);  // nothing has changed
}

}  // namespace
}  // namespace tessera::convert
