// Conversions of whole folders against those of another converter: every tensor with its type, shape and bytes, and
// every key. The data is under ../shared/golden/convert.
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/convert/conversion.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using nlohmann::json;
using namespace testing;

std::string digest_of(std::span<const std::byte> bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

bool is_compared(const std::string& key, const json& expected) {
  // The other converter adds a template of its own to RWKV, whose folder has none.
  if (key == "tokenizer.chat_template" && expected["kv"]["general.architecture"]["value"] == "rwkv7") return false;
  const json free = expected.value("free", json::array());
  return std::find(free.begin(), free.end(), key) == free.end();
}

// The value as the expected file describes it.
json described(const GgufValue& value) {
  if (value.is_array()) {
    std::string strings;  // joined by NUL
    for (size_t i = 0; value.element_type() == GgufType::string && i < value.size(); ++i)
      strings += (i > 0 ? std::string(1, '\0') : "") + std::string(value[i].as<std::string_view>().value());
    return {{"array", static_cast<int>(value.element_type())},
            {"n", value.size()},
            {"sha256",
             digest_of(value.element_type() == GgufType::string ? std::as_bytes(std::span(strings)) : value.bytes())}};
  }
  json item = {{"type", static_cast<int>(value.type())}};
  if (value.type() == GgufType::string) item["value"] = value.as<std::string_view>().value();
  if (value.type() == GgufType::boolean) item["value"] = value.as<bool>().value();
  if (value.type() == GgufType::f32) item["value"] = value.as<double>().value();
  if (value.type() == GgufType::u32 || value.type() == GgufType::i32) item["value"] = value.as<int64_t>().value();
  return item;
}

void expect_same_keys(const Metadata& metadata, const json& expected) {
  for (const auto& [key, want] : expected["kv"].items()) {
    if (!is_compared(key, expected)) continue;
    const GgufValue* value = metadata.find(key);
    ASSERT_NE(value, nullptr) << key;
    const json got = described(*value);
    const json allowed = expected.value("any_of", json::object()).value(key, json::array());
    if (!allowed.empty()) {
      EXPECT_NE(std::find(allowed.begin(), allowed.end(), got["value"]), allowed.end()) << key << got;
      continue;
    }
    if (value->type() == GgufType::f32) {
      ASSERT_EQ(want["type"], got["type"]) << key;
      const double number = want["value"];
      EXPECT_NEAR(got["value"].get<double>(), number, 1e-6 * std::abs(number)) << key;
      continue;
    }
    json without_head = want;
    without_head.erase("head");
    EXPECT_EQ(got, without_head) << key;
  }
}

void expect_same_tensors(const ModelFiles& files, const json& expected) {
  for (const ModelFiles::Tensor& tensor : files.tensors())
    EXPECT_TRUE(expected["tensors"].contains(std::string(tensor.info.name))) << tensor.info.name;
  for (const auto& [name, want] : expected["tensors"].items()) {
    const ModelFiles::Tensor* tensor = files.find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    std::string type(info(tensor->info.dtype).name);
    for (char& c : type) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    EXPECT_EQ(type, want["type"]) << name;
    std::vector<int64_t> shape(tensor->info.shape.ne.begin(), tensor->info.shape.ne.begin() + tensor->info.rank);
    EXPECT_EQ(json(shape), want["shape"]) << name;
    EXPECT_EQ(digest_of(files.data(*tensor)), want["sha256"]) << name;
  }
}

Result<std::unique_ptr<ModelFiles>> convert_folder(const std::string& folder, FileType type, int n_threads) {
  const std::string output = temporary_path("converted.gguf");
  QuantizeOptions options;
  options.mix.file_type = type;
  options.encoder.kind = EncoderKind::compatible;  // the other converter's rule
  TESSERA_ASSIGN(const auto conversion, Conversion::open(folder, type));
  conversion->apply_to(options);
  TESSERA_ASSIGN(const auto plan, plan_quantize(conversion->files(), options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads}));
  const auto progress = [](float) { return true; };
  TESSERA_TRY(write_quantized(conversion->files(), plan, options, output, {*threads, nullptr, progress}));
  return ModelFiles::open(output);
}

// NAME, or NAME.TYPE for another type than BF16.
class GoldenConversion : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenConversion, GivesTheSameModel) {
  const std::string result = GetParam();
  const size_t dot = result.find('.');
  const std::string name = result.substr(0, dot);
  const std::string type = dot != std::string::npos ? result.substr(dot + 1)
                           : name == "ggjt"         ? "f16"
                           : name == "llama2c"      ? "f32"
                                                    : "bf16";
  const bool is_of_hub = name != "ggjt" && name != "llama2c";
  TESSERA_SHARED_OR_SKIP(folder, "golden/convert/" + std::string(is_of_hub ? "hf/" : "") + name);
  TESSERA_SHARED_OR_SKIP(wanted, "golden/convert/" + result + ".json");
  const json expected = json::parse(read_all(wanted));
  ASSERT_OK_AND_ASSIGN(const auto files, convert_folder(folder, *file_type_from_name(type), 2));
  expect_same_keys(files->metadata(), expected);
  expect_same_tensors(*files, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Folders, GoldenConversion,
    ::testing::Values("awq", "fp8-block", "fp8-channel", "ggjt", "gpt-oss", "gpt-oss.f16", "gpt-oss.f32",
                      "gpt-oss.q8_0", "gptq", "int4-packed", "llama2c", "nvfp4", "bert-rerank", "bert", "bloom",
                      "cohere2", "command-r", "deepseek2", "exaone4", "falcon", "gemma", "gemma2", "gemma3", "gemma4",
                      "glm4", "glm4moe", "gpt2", "gptneox", "granite", "granitehybrid", "granitemoe", "jamba", "lfm2",
                      "lfm2moe", "llama-bin-legacy", "llama-bin", "llama-hf", "llama.f16", "llama.f32", "llama",
                      "llama.q8_0", "llama3", "mamba", "mamba2.f16", "mamba2.f32", "mamba2", "mamba2.q8_0", "mistral",
                      "mistral3", "mixtral", "modern-bert", "mpt", "nemotron", "nomic-bert", "olmo2", "olmo3", "olmoe",
                      "phi2", "phi3", "qwen2-bin", "qwen2", "qwen2moe", "qwen3", "qwen35", "qwen35moe", "qwen3moe.f16",
                      "qwen3moe.f32", "qwen3moe", "qwen3moe.q8_0", "qwen3next", "rwkv7", "smollm3", "stablelm",
                      "starcoder2", "t5", "t5encoder"),
    [](const auto& param) {
      std::string name = param.param;
      for (char& c : name)
        if (c == '-' || c == '.') c = '_';
      return name;
    });

}  // namespace
}  // namespace tessera::convert
