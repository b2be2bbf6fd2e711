// Packed checkpoints, whose values converted to a type must have the golden bytes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/base/half.h"
#include "tessera/base/index.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/convert/source/views.h"
#include "tests/convert/sha256.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

// Names of modules of a layer, and the same in GGUF.
const std::map<std::string, std::string> kLayerModules = {
    {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},   {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
const std::map<std::string, std::string> kOtherNames = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

// "model.layers.1.mlp.up_proj.scale" becomes "blk.1.ffn_up.scale".
std::string gguf_name_of(const std::string& name) {
  if (const auto found = kOtherNames.find(name); found != kOtherNames.end()) return found->second;
  const std::string prefix = "model.layers.";
  const size_t module = name.find('.', prefix.size()) + 1, end = name.rfind('.');
  if (!name.starts_with(prefix) || module == 0 || end < module) return "no layer";
  const auto found = kLayerModules.find(name.substr(module, end - module));
  if (found == kLayerModules.end()) return "no module";
  return "blk." + name.substr(prefix.size(), module - prefix.size()) + found->second + name.substr(end);
}

std::vector<std::byte> read_whole(const StoredTensor& tensor, std::span<const std::byte> file) {
  std::vector<std::byte> bytes(to_size(tensor.n_elements()) * element_bytes(tensor.type));
  tensor.read(file, 0, bytes);
  return bytes;
}

// All elements in the type of the golden tensor.
std::vector<std::byte> converted(const StoredTensor& tensor, std::span<const std::byte> file, const std::string& type) {
  std::vector<std::byte> bytes = read_whole(tensor, file);
  if (element_name(tensor.type) == type) return bytes;
  std::vector<float> values(to_size(tensor.n_values()));
  to_floats(tensor.type, bytes, values);
  if (type == "BF16") {
    std::vector<uint16_t> halves;
    for (const float value : values) halves.push_back(f32_to_bf16(value));
    bytes.resize(halves.size() * 2);
    std::memcpy(bytes.data(), halves.data(), bytes.size());
  } else {
    EXPECT_EQ(type, "F32");
    bytes.resize(values.size() * 4);
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

nlohmann::json golden_tensors(const std::string& path) { return nlohmann::json::parse(read_all(path)).at("tensors"); }

Result<Checkpoint> open_unpacked(const std::string& folder) {
  TESSERA_ASSIGN(Checkpoint checkpoint, Checkpoint::open(folder));
  TESSERA_ASSIGN(const HubConfig config, HubConfig::read(checkpoint));
  TESSERA_TRY(unpack_tensors(checkpoint, config));
  return checkpoint;
}

class GoldenPackings : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenPackings, LlamasHaveTheGoldenTensors) {
  TESSERA_SHARED_OR_SKIP(folder, std::string("golden/convert/hf/") + GetParam());
  TESSERA_SHARED_OR_SKIP(golden_path, std::string("golden/convert/") + GetParam() + ".json");
  const nlohmann::json golden = golden_tensors(golden_path);
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, open_unpacked(folder));
  EXPECT_EQ(checkpoint.tensors().size(), golden.size());
  for (const CheckpointTensor& source : checkpoint.tensors()) {
    const std::string name = gguf_name_of(source.tensor.name);
    SCOPED_TRACE(source.tensor.name + " " + name);
    ASSERT_TRUE(golden.contains(name));
    StoredTensor tensor = source.tensor;
    if (name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight")) {
      ASSERT_OK_AND_ASSIGN(tensor, rope_pairs_together(tensor, name.ends_with("q.weight") ? 4 : 2));
    }
    const auto bytes = converted(tensor, checkpoint.file_bytes(source), golden[name]["type"]);
    EXPECT_EQ(sha256_of(bytes), golden[name]["sha256"]);
    std::vector<int64_t> shape = source.tensor.shape;
    shape.back() *= element_values(source.tensor.type);
    EXPECT_EQ(std::vector<int64_t>(shape.rbegin(), shape.rend()), golden[name]["shape"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, GoldenPackings,
                         ::testing::Values("awq", "gptq", "fp8-block", "fp8-channel", "int4-packed", "nvfp4"));

// Rows of the first product of an expert are in turns those of the gate and of the other matrix.
TEST(GoldenPackings, ExpertsOfGptOssStayInMxfp4) {
  TESSERA_SHARED_OR_SKIP(folder, "golden/convert/hf/gpt-oss");
  TESSERA_SHARED_OR_SKIP(golden_path, "golden/convert/gpt-oss.json");
  const nlohmann::json golden = golden_tensors(golden_path);
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, open_unpacked(folder));
  for (const int layer : {0, 1}) {
    const std::string hub = fmt::format("model.layers.{}.mlp.experts.", layer), gguf = fmt::format("blk.{}.", layer);
    const CheckpointTensor* down = checkpoint.find(hub + "down_proj.weight");
    const CheckpointTensor* both = checkpoint.find(hub + "gate_up_proj.weight");
    ASSERT_TRUE(down != nullptr && both != nullptr);
    EXPECT_EQ(both->tensor.shape, (std::vector<int64_t>{4, 128, 2}));
    EXPECT_EQ(sha256_of(read_whole(down->tensor, {})), golden[gguf + "ffn_down_exps.weight"]["sha256"]);
    ASSERT_OK_AND_ASSIGN(const StoredTensor apart, reshaped(both->tensor, {4, 64, 2, 2}));
    for (const int part : {0, 1}) {
      ASSERT_OK_AND_ASSIGN(const StoredTensor half, part_of(apart, 2, part, 1));
      const std::string name = gguf + (part == 0 ? "ffn_gate_exps.weight" : "ffn_up_exps.weight");
      EXPECT_EQ(sha256_of(read_whole(half, {})), golden[name]["sha256"]) << name;
    }
  }
  EXPECT_EQ(checkpoint.find("model.layers.0.mlp.experts.down_proj_blocks"), nullptr);
  EXPECT_EQ(checkpoint.find("model.layers.0.mlp.experts.down_proj_scales"), nullptr);
}

}  // namespace
}  // namespace tessera::convert
