// Settings of LoRA adapters, and the paths under which adapters are found.
#include "tessera/convert/adapter/lora_settings.h"

#include <gtest/gtest.h>

#include "tests/convert/checkpoint_folder.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

Result<LoraSettings> settings_of(const std::string& members) {
  return read_lora_settings(write_folder("settings", {{"adapter_config.json", "{" + members + "}"}}) +
                            "/adapter_config.json");
}

std::string settings_refusal(const std::string& members) {
  const auto settings = settings_of(members);
  return settings ? "read" : settings.error().message();
}

TEST(LoraSettings, AbsentOnesAreThoseOfTheLibrary) {
  ASSERT_OK_AND_ASSIGN(const LoraSettings settings, settings_of(""));
  EXPECT_EQ(settings.base, "");
  EXPECT_EQ(settings.alpha, 8);
  EXPECT_FALSE(settings.is_rank_stabilized);
  EXPECT_TRUE(settings.own_alphas.empty());
  EXPECT_EQ(alpha_of(settings, "a", 4), 8);
}

TEST(LoraSettings, GivenOnesAreRead) {
  ASSERT_OK_AND_ASSIGN(const LoraSettings settings, settings_of(R"("base_model_name_or_path": "me/base",
      "peft_type": "LORA", "lora_alpha": 12, "use_rslora": true, "alpha_pattern": {"q_proj": 5, "a.k_proj": 7},
      "use_dora": false, "modules_to_save": null, "layer_replication": [], "rank_pattern": {"q_proj": 4})"));
  EXPECT_EQ(settings.base, "me/base");
  EXPECT_EQ(alpha_of(settings, "v_proj", 16), 48);
  EXPECT_EQ(alpha_of(settings, "q_proj", 16), 20);
  EXPECT_EQ(alpha_of(settings, "x.q_proj", 4), 10);
  EXPECT_EQ(alpha_of(settings, "xq_proj", 4), 24);
  EXPECT_EQ(alpha_of(settings, "q_proj.x", 4), 24);
  EXPECT_EQ(alpha_of(settings, "b.k_proj", 4), 24);
  EXPECT_EQ(alpha_of(settings, "b.a.k_proj", 1), 7);
}

TEST(LoraSettings, WhatNoPairOfMatricesSaysIsRefused) {
  const auto expect = [](const std::string& members, const std::string& part) {
    const std::string message = settings_refusal(members);
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nwant " << part;
    EXPECT_NE(message.find("settings/adapter_config.json: "), std::string::npos) << message;
  };
  expect(R"("peft_type": "IA3")", "an adapter of type \"IA3\", want LORA");
  expect(R"("bias": "lora_only")", "bias is \"lora_only\"");
  expect(R"("use_dora": true)", "use_dora is set: a GGUF adapter cannot hold DoRA");
  expect(R"("use_qalora": true)", "use_qalora is set");
  expect(R"("lora_bias": true)", "lora_bias is set");
  expect(R"("modules_to_save": ["lm_head"])", "modules_to_save is set: a GGUF adapter cannot hold whole modules");
  expect(R"("target_parameters": ["a"])", "target_parameters is set");
  expect(R"("trainable_token_indices": [1])", "trainable_token_indices is set");
  expect(R"("layer_replication": [[0, 4]])", "layer_replication is set");
  expect(R"("alora_invocation_tokens": [1])", "alora_invocation_tokens is set");
  expect(R"("lora_alpha": 0)", "lora_alpha is 0");
  expect(R"("lora_alpha": "8")", "lora_alpha is \"8\", want a number");
  expect(R"("base_model_name_or_path": 1)", "want a string");
  expect(R"("use_rslora": 1)", "want true or false");
  expect(R"("alpha_pattern": [1])", "alpha_pattern: want an object");
  expect(R"("alpha_pattern": {"a": 0})", "alpha_pattern of \"a\": want a number other than 0");
  expect(R"("alpha_pattern": {"a": "1"})", "want a number other than 0");
  for (const char* name : {"^a", "a$", "a*", "a+", "a?", "a(b", "a)", "a[", "a]", "a{", "a}", "a|b", R"(a\\.b)"})
    expect(std::string(R"("alpha_pattern": {")") + name + "\": 1}", "is a regular expression, want names of modules");
  EXPECT_EQ(settings_refusal(R"("alpha_pattern": {"a.b_c": -1})"), "read");
  EXPECT_ERROR(read_lora_settings(temporary_path("none.json")), "no such file");
}

TEST(LoraSettings, AdaptersAreFoundByTheirTwoFiles) {
  const auto folder = [](const std::vector<std::pair<std::string, std::string>>& files) {
    return write_folder("found", files);
  };
  const std::pair<std::string, std::string> config = {"adapter_config.json", "{}"};
  std::string path = folder({config, {"adapter_model.bin", ""}, {"model.safetensors", ""}});
  EXPECT_EQ(find_adapter(path), path + "/adapter_model.bin");
  EXPECT_EQ(find_adapter(path + "/adapter_model.bin"), path + "/adapter_model.bin");
  EXPECT_EQ(find_adapter(path + "/model.safetensors"), std::nullopt);
  path = folder({config, {"adapter_model.bin", ""}, {"adapter_model.safetensors", ""}});
  EXPECT_EQ(find_adapter(path), path + "/adapter_model.safetensors");
  EXPECT_EQ(find_adapter(folder({config, {"model.safetensors", ""}})), std::nullopt);
  EXPECT_EQ(find_adapter(folder({{"adapter_model.bin", ""}})), std::nullopt);
  EXPECT_EQ(find_adapter(temporary_path("none")), std::nullopt);
}

}  // namespace
}  // namespace tessera::convert
