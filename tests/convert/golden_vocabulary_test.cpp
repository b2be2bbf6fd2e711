// Vocabularies of the golden folders, key by key, as the reference writes them.
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "tessera/gguf/reader.h"
#include "tests/convert/vocabulary_files.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr const char* kGoldenFolders[] = {"awq",
                                          "bert",
                                          "bert-rerank",
                                          "bloom",
                                          "cohere2",
                                          "command-r",
                                          "deepseek2",
                                          "exaone4",
                                          "falcon",
                                          "fp8-block",
                                          "fp8-channel",
                                          "gemma",
                                          "gemma2",
                                          "gemma3",
                                          "gemma4",
                                          "glm4",
                                          "glm4moe",
                                          "gpt-oss",
                                          "gpt2",
                                          "gptneox",
                                          "gptq",
                                          "granite",
                                          "granitehybrid",
                                          "granitemoe",
                                          "int4-packed",
                                          "jamba",
                                          "lfm2",
                                          "lfm2moe",
                                          "llama",
                                          "llama-bin",
                                          "llama-bin-legacy",
                                          "llama-hf",
                                          "llama3",
                                          "mamba",
                                          "mamba2",
                                          "mistral",
                                          "mistral3",
                                          "mixtral",
                                          "modern-bert",
                                          "mpt",
                                          "nemotron",
                                          "nomic-bert",
                                          "nvfp4",
                                          "olmo2",
                                          "olmo3",
                                          "olmoe",
                                          "phi2",
                                          "phi3",
                                          "qwen2",
                                          "qwen2-bin",
                                          "qwen2moe",
                                          "qwen3",
                                          "qwen35",
                                          "qwen35moe",
                                          "qwen3moe",
                                          "qwen3next",
                                          "rwkv7",
                                          "smollm3",
                                          "stablelm",
                                          "starcoder2",
                                          "t5",
                                          "t5encoder"};

// The reference takes the template of RWKV from a file of its own; ours is that of text/chat/builtin_templates.def.
const std::set<std::pair<std::string, std::string>> kOwnValues{{"rwkv7", "tokenizer.chat_template"}};

std::string hex_digest(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

// The bytes of an array of which golden files have the digest: texts with NUL between them.
std::string digested_bytes(const GgufValue& array) {
  if (array.element_type() != GgufType::string) {
    const auto bytes = array.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string bytes;
  for (size_t i = 0; i < array.size(); ++i) {
    if (i > 0) bytes += '\0';
    bytes += array[i].as<std::string_view>().value();
  }
  return bytes;
}

void expect_array(const GgufValue& value, const Json& want) {
  ASSERT_TRUE(value.is_array());
  EXPECT_EQ(static_cast<int>(value.element_type()), want["array"].get<int>());
  EXPECT_EQ(value.size(), want["n"].get<size_t>());
  EXPECT_EQ(hex_digest(digested_bytes(value)), want["sha256"].get<std::string>()) << to_string(value, 1000);
}

void expect_scalar(const GgufValue& value, const Json& want) {
  EXPECT_EQ(static_cast<int>(value.type()), want["type"].get<int>());
  if (want["value"].is_string())
    EXPECT_EQ(value.as<std::string_view>().value(), want["value"].get<std::string>());
  else if (want["value"].is_boolean())
    EXPECT_EQ(value.as<bool>().value(), want["value"].get<bool>());
  else
    EXPECT_EQ(value.as<int64_t>().value(), want["value"].get<int64_t>());
}

class GoldenVocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenVocabulary, HasTheKeysOfTheReference) {
  const std::string name = GetParam();
  TESSERA_SHARED_OR_SKIP(folder, "golden/convert/hf/" + name);
  const Json golden = Json::parse(read_all(shared_path("golden/convert/" + name + ".json").value()));
  const Json config = Json::parse(read_all(folder + "/config.json"));
  std::vector<std::string> warnings;
  ASSERT_OK_AND_ASSIGN(const Vocabulary vocabulary,
                       read_vocabulary(folder, HubConfig::of(config, "config.json").value(), {}, warnings));
  // Tekken's files of the hub say ignore_merges, the golden one does not.
  EXPECT_EQ(warnings.size(), name == "mistral3" ? 1u : 0u) << ::testing::PrintToString(warnings);
  GgufBuilder builder;
  ASSERT_OK(add_vocabulary(vocabulary, builder));
  const auto bytes = gguf_to_bytes(builder, {}).value();
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(bytes, name));
  std::set<std::string> free;
  if (golden.contains("free")) free = golden["free"].get<std::set<std::string>>();
  for (const auto& [key, want] : golden["kv"].items()) {
    if (!key.starts_with("tokenizer.") || free.contains(key) || kOwnValues.contains({name, key})) continue;
    SCOPED_TRACE(key);
    const GgufValue* value = file->metadata().find(key);
    ASSERT_NE(value, nullptr);
    if (golden.contains("any_of") && golden["any_of"].contains(key)) {
      const auto names = golden["any_of"][key].get<std::set<std::string, std::less<>>>();
      EXPECT_TRUE(names.contains(value->as<std::string_view>().value())) << to_string(*value);
    } else if (want.contains("array")) {
      expect_array(*value, want);
    } else {
      expect_scalar(*value, want);
    }
  }
  for (const std::string_view key : {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"})
    EXPECT_NE(file->metadata().find(key), nullptr) << key;
}

INSTANTIATE_TEST_SUITE_P(Folders, GoldenVocabulary, ::testing::ValuesIn(kGoldenFolders), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(GoldenVocabularies, AreAllListed) {
  TESSERA_SHARED_OR_SKIP(folder, "golden/convert/hf");
  const std::set<std::string> listed(std::begin(kGoldenFolders), std::end(kGoldenFolders));
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    EXPECT_TRUE(listed.contains(entry.path().filename())) << entry.path();
}

}  // namespace
}  // namespace tessera::convert
