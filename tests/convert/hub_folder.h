// Small models as hubs store them: a folder with config.json and model.safetensors.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/half.h"
#include "tessera/base/rng.h"
#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::testing {

struct HubTensor {
  std::string name{}, type{};
  std::vector<int64_t> shape{};
  std::string bytes{};
};

/// Values of a type of safetensors: F32, F16 or BF16.
inline std::string hub_bytes(const std::vector<float>& values, const std::string& type) {
  std::string bytes;
  for (const float value : values) {
    if (type == "F32") bytes += number_bytes(value);
    if (type == "F16") bytes += number_bytes(f32_to_f16(value));
    if (type == "BF16") bytes += number_bytes(f32_to_bf16(value));
  }
  return bytes;
}

struct HubFolder {
  std::string config{};
  std::vector<HubTensor> tensors{};

  /// A tensor of values in [-1, 1), which depend on its place among the tensors.
  void add(const std::string& name, const std::vector<int64_t>& shape, const std::string& type = "BF16") {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    Rng rng(tensors.size() + 1);
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = rng.next_float(-1.0f, 1.0f);
    tensors.push_back({name, type, shape, hub_bytes(values, type)});
  }
  HubTensor& find(const std::string& name) {
    for (HubTensor& tensor : tensors)
      if (tensor.name == name) return tensor;
    ADD_FAILURE() << "no tensor " << name;
    return tensors.front();
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const HubTensor& tensor) { return tensor.name == name; });
  }

  /// Writes the folder, instead of one of this name, and returns its path.
  std::string write(const std::string& name) const {
    const std::filesystem::path folder = temporary_path(name);
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config;
    std::string header = "{", data;
    for (const HubTensor& tensor : tensors) {
      std::string shape;
      for (const int64_t extent : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
      if (header.size() > 1) header += ",";
      header += "\"" + tensor.name + R"(":{"dtype":")" + tensor.type + R"(","shape":[)" + shape +
                R"(],"data_offsets":[)" + std::to_string(data.size()) + ",";
      data += tensor.bytes;
      header += std::to_string(data.size()) + "]}";
    }
    std::ofstream(folder / "model.safetensors", std::ios::binary) << safetensors_file(header + "}", data);
    return folder.string();
  }
};

/// A llama with two layers: embedding 64, FFN 96, 4 heads of which 2 are KV heads, a vocabulary of 40 tokens.
/// members: more of config.json, each with a comma after it.
inline HubFolder hub_llama(const std::string& type = "BF16", const std::string& members = "") {
  HubFolder folder;
  folder.config = "{" + members +
                  R"("architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 40,
      "max_position_embeddings": 128, "rms_norm_eps": 1e-5})";
  folder.add("lm_head.weight", {40, 64}, type);
  folder.add("model.embed_tokens.weight", {40, 64}, type);
  folder.add("model.norm.weight", {64}, type);
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    folder.add(layer + "input_layernorm.weight", {64}, type);
    folder.add(layer + "self_attn.q_proj.weight", {64, 64}, type);
    folder.add(layer + "self_attn.k_proj.weight", {32, 64}, type);
    folder.add(layer + "self_attn.v_proj.weight", {32, 64}, type);
    folder.add(layer + "self_attn.o_proj.weight", {64, 64}, type);
    folder.add(layer + "post_attention_layernorm.weight", {64}, type);
    folder.add(layer + "mlp.gate_proj.weight", {96, 64}, type);
    folder.add(layer + "mlp.up_proj.weight", {96, 64}, type);
    folder.add(layer + "mlp.down_proj.weight", {64, 96}, type);
  }
  return folder;
}

/// A llama with weights of 5 million values, which an encoder needs some time for.
inline HubFolder slow_llama() {
  HubFolder folder;
  folder.config = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1024,
      "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 64,
      "max_position_embeddings": 128, "rms_norm_eps": 1e-5})";
  folder.add("lm_head.weight", {64, 512});
  folder.add("model.embed_tokens.weight", {64, 512});
  folder.add("model.norm.weight", {512});
  for (int i = 0; i < 2; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    folder.add(layer + "input_layernorm.weight", {512});
    folder.add(layer + "post_attention_layernorm.weight", {512});
    for (const char* part : {"q", "k", "v", "o"}) folder.add(layer + "self_attn." + part + "_proj.weight", {512, 512});
    folder.add(layer + "mlp.gate_proj.weight", {1024, 512});
    folder.add(layer + "mlp.up_proj.weight", {1024, 512});
    folder.add(layer + "mlp.down_proj.weight", {512, 1024});
  }
  return folder;
}

}  // namespace tessera::testing
