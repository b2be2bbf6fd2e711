// Rope scaling of config.json as keys and tensors.
#include "tessera/convert/checkpoints/rope_scaling.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/gguf/split.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

struct Scaled {
  std::string keys{};  // one line each, or the error
  std::vector<ConvertedTensor> tensors{};
};

// settings: members of config.json.
Scaled scaled(const std::string& settings) {
  const auto checkpoint = Checkpoint::open(hub_llama().write("scaling")).value();
  const auto config =
      HubConfig::of(Json::parse(R"({"hidden_size": 64, "num_attention_heads": 4, )" + settings + "}"), "config.json")
          .value();
  GgufBuilder builder;
  Scaled result;
  ModelDraft draft{checkpoint, config, "a", builder, result.tensors};
  if (const Result<> added = add_rope_scaling(draft); !added) return {added.error().message()};
  const auto header = builder.header().value();
  const auto files = ModelFiles::parse_header(header, "test").value();
  for (const Metadata::Entry& entry : files->metadata().entries())
    result.keys += std::string(entry.key) + "=" + to_string(entry.value) + " ";
  return result;
}

TEST(RopeScaling, Linear) {
  EXPECT_EQ(scaled(R"("rope_scaling": {"type": "linear", "factor": 2.0})").keys,
            "a.rope.scaling.type=\"linear\" a.rope.scaling.factor=2 ");
  EXPECT_EQ(scaled(R"("rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2.0})").keys,
            "a.rope.scaling.type=\"linear\" a.rope.scaling.factor=2 ");
}

TEST(RopeScaling, Yarn) {
  EXPECT_EQ(scaled(R"("rope_parameters": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 512,
                      "extrapolation_factor": 1.5, "attention_factor": 0.5, "beta_fast": 32, "beta_slow": 1})")
                .keys,
            "a.rope.scaling.type=\"yarn\" a.rope.scaling.factor=4 a.rope.scaling.original_context_length=512 "
            "a.rope.scaling.yarn_ext_factor=1.5 a.rope.scaling.yarn_attn_factor=0.5 "
            "a.rope.scaling.yarn_beta_fast=32 a.rope.scaling.yarn_beta_slow=1 ");
}

TEST(RopeScaling, NewSettingsHideOlderOnes) {
  EXPECT_EQ(scaled(R"("rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 3}},
                      "rope_scaling": {"type": "yarn", "factor": 2})")
                .keys,
            "a.rope.scaling.type=\"linear\" a.rope.scaling.factor=3 ");
}

TEST(RopeScaling, TypesWithoutKeys) {
  for (const char* type : {"default", "dynamic", "mrope"})
    EXPECT_EQ(scaled(R"("rope_scaling": {"factor": 2, "type": ")" + std::string(type) + "\"}").keys, "") << type;
  EXPECT_EQ(scaled(R"("rope_theta": 1)").keys, "");
  EXPECT_EQ(scaled(R"("rope_scaling": {"type": "other"})").keys,
            "config.json: rope scaling of type \"other\" is not known");
}

TEST(RopeScaling, FactorsOfLongContextsAreTensors) {
  for (const char* type : {"longrope", "su"}) {
    const Scaled result = scaled(R"("rope_scaling": {"short_factor": [1, 2.5], "long_factor": [3, 4], "type": ")" +
                                 std::string(type) + "\"}");
    EXPECT_EQ(result.keys, "a.rope.scaling.type=\"longrope\" ");
    ASSERT_EQ(result.tensors.size(), 2u);
    EXPECT_EQ(result.tensors[0].name, "rope_factors_long.weight");
    EXPECT_EQ(result.tensors[0].computed, (std::vector<float>{3, 4}));
    EXPECT_EQ(result.tensors[1].name, "rope_factors_short.weight");
    EXPECT_EQ(result.tensors[1].computed, (std::vector<float>{1, 2.5}));
    EXPECT_EQ(result.tensors[1].shape, (std::vector<int64_t>{2}));
  }
  for (const char* list : {"[]", "7", "[1, \"a\"]"})
    EXPECT_EQ(scaled(R"("rope_scaling": {"type": "su", "long_factor": )" + std::string(list) + "}").keys,
              "config.json: long_factor: want a list of at most 65536 numbers")
        << list;
}

TEST(RopeScaling, SlowedWaves) {
  // With base 4 and 8 rotated dimensions, waves have 2 pi 4^(i / 4) positions: 6.3, 8.9, 12.6, 17.8.
  const std::vector<float> factors =
      slowed_wave_factors({.factor = 8, .low_frequency = 1, .high_frequency = 2, .n_original = 16}, 4.0, 8);
  ASSERT_EQ(factors.size(), 4u);
  EXPECT_EQ(factors[0], 1.0f);  // shorter than 16 / 2
  EXPECT_EQ(factors[3], 8.0f);  // longer than 16 / 1
  const auto between = [](double wave) {
    const double smooth = 16 / wave - 1;
    return 1 / ((1 - smooth) / 8 + smooth);
  };
  EXPECT_NEAR(factors[1], between(8.8857659), 1e-5);
  EXPECT_NEAR(factors[2], between(12.566371), 1e-5);
  const Scaled result = scaled(R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3"})");
  EXPECT_EQ(result.keys, "");
  ASSERT_EQ(result.tensors.size(), 1u);
  EXPECT_EQ(result.tensors[0].name, "rope_freqs.weight");
  EXPECT_EQ(result.tensors[0].computed, slowed_wave_factors({}, 500000.0, 16));
}

TEST(RopeScaling, SettingsOfSlowedWavesHaveBounds) {
  const auto refusal = [](const std::string& members) {
    return scaled(R"("rope_scaling": {"rope_type": "llama3")" + members + "}").keys;
  };
  EXPECT_EQ(refusal(R"(, "factor": 0)"),
            "config.json: factors of rope scaling are 0, 1 and 4, want positive ones that ascend");
  EXPECT_NE(refusal(R"(, "low_freq_factor": 4.0)").find("are 8, 4 and 4"), std::string::npos);
  EXPECT_NE(refusal(R"(, "low_freq_factor": 0)").find("are 8, 0 and 4"), std::string::npos);
  EXPECT_NE(refusal(R"(, "original_max_position_embeddings": 0)").find("from 1 to"), std::string::npos);
  EXPECT_NE(refusal(R"(}, "head_dim": 131072, "x": {)").find("heads of 131072 values"), std::string::npos);
}

}  // namespace
}  // namespace tessera::convert
