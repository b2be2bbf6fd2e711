// Golden files of models without config.json: tensors, tokens and numbers.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tessera/base/half.h"
#include "tessera/base/index.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/convert/source/hub_config.h"
#include "tests/convert/sha256.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

// Names of Meta's files, and the same in GGUF.
std::string gguf_name_of_meta(const std::string& name) {
  const std::map<std::string, std::string> names = {
      {"tok_embeddings", "token_embd"}, {"norm", "output_norm"},         {"output", "output"},
      {"attention.wq", "attn_q"},       {"attention.wk", "attn_k"},      {"attention.wv", "attn_v"},
      {"attention.wo", "attn_output"},  {"attention_norm", "attn_norm"}, {"ffn_norm", "ffn_norm"},
      {"feed_forward.w1", "ffn_gate"},  {"feed_forward.w2", "ffn_down"}, {"feed_forward.w3", "ffn_up"}};
  const std::string prefix = "layers.", end = ".weight";
  std::string stem = name.substr(0, name.size() - end.size()), begin;
  if (stem.starts_with(prefix)) {
    const size_t dot = stem.find('.', prefix.size());
    begin = "blk." + stem.substr(prefix.size(), dot + 1 - prefix.size());
    stem = stem.substr(dot + 1);
  }
  const auto found = names.find(stem);
  return found == names.end() ? "no name for " + name : begin + found->second + end;
}

std::string sha256_of_tokens(const std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += (&token == tokens.data() ? "" : std::string(1, '\0')) + token;
  return sha256_of(std::as_bytes(std::span(all)));
}

// The golden keys and tensors of a file.
void expect_golden(const std::string& path, const std::string& golden_path) {
  const nlohmann::json golden = nlohmann::json::parse(read_all(golden_path));
  const auto& tensors = golden.at("tensors");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  EXPECT_EQ(checkpoint.tensors().size(), tensors.size());
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const std::string name = gguf_name_of_meta(tensor.tensor.name);
    ASSERT_TRUE(tensors.contains(name)) << name;
    EXPECT_EQ(element_name(tensor.tensor.type), tensors[name]["type"]) << name;
    std::vector<std::byte> bytes(to_size(tensor.tensor.n_elements()) * element_bytes(tensor.tensor.type));
    checkpoint.read(tensor, 0, bytes);
    EXPECT_EQ(sha256_of(bytes), tensors[name]["sha256"]) << name;
    EXPECT_EQ(std::vector<int64_t>(tensor.tensor.shape.rbegin(), tensor.tensor.shape.rend()), tensors[name]["shape"]);
  }
  const BareModel* model = checkpoint.bare_model();
  ASSERT_NE(model, nullptr);
  const auto& keys = golden.at("kv");
  const auto number = [&](const std::string& key) { return keys.at("llama." + key).at("value").get<int64_t>(); };
  EXPECT_EQ(model->n_embd, number("embedding_length"));
  EXPECT_EQ(model->n_layers, number("block_count"));
  EXPECT_EQ(model->n_ff, number("feed_forward_length"));
  EXPECT_EQ(model->n_heads, number("attention.head_count"));
  EXPECT_EQ(model->n_kv_heads, number("attention.head_count_kv"));
  if (keys.contains("llama.context_length")) {
    EXPECT_EQ(model->n_context, number("context_length"));
  }
  std::vector<int32_t> types;
  for (const text::TokenType type : model->types) types.push_back(static_cast<int32_t>(type));
  const auto digest = [&](const std::string& key) { return keys.at("tokenizer.ggml." + key).at("sha256"); };
  EXPECT_EQ(std::ssize(model->tokens), model->n_vocab);
  EXPECT_EQ(sha256_of_tokens(model->tokens), digest("tokens"));
  EXPECT_EQ(sha256_of(std::as_bytes(std::span(model->scores))), digest("scores"));
  EXPECT_EQ(sha256_of(std::as_bytes(std::span(types))), digest("token_type"));
}

TEST(GoldenBareFiles, Ggjt) {
  TESSERA_SHARED_OR_SKIP(path, "golden/convert/ggjt/model.bin");
  TESSERA_SHARED_OR_SKIP(golden, "golden/convert/ggjt.json");
  expect_golden(path, golden);
}

TEST(GoldenBareFiles, Llama2c) {
  TESSERA_SHARED_OR_SKIP(folder, "golden/convert/llama2c");
  TESSERA_SHARED_OR_SKIP(golden, "golden/convert/llama2c.json");
  expect_golden(folder, golden);
  EXPECT_TRUE(is_checkpoint(folder + "/model.bin"));
  EXPECT_FALSE(is_checkpoint(folder + "/tokenizer.bin"));
}

}  // namespace
}  // namespace tessera::convert
