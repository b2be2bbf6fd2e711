// Adapters in the form of the PEFT library for small models of tests, and the same models with the adapters merged.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/convert/hub_folder.h"

namespace tessera::testing {

inline std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The form in which a module has its weight: [n_out, n_in], or transposed as that of a table of embeddings and that of
/// Conv1D are.
enum class LoraForm { linear, table, conv1d };

struct LoraFolder {
  nlohmann::ordered_json config = {{"peft_type", "LORA"}, {"lora_alpha", 8.0}, {"bias", "none"}};
  std::vector<SmallTensor> tensors{};
  std::string prefix = "base_model.model.";

  /// Adds a pair for a module of a model in F32, and its product times `scale` to the model's weight.
  void add(HubFolder& model, const std::string& module, int64_t rank, float scale, LoraForm form = LoraForm::linear) {
    HubTensor& weight = model.find(module + ".weight");
    const bool is_transposed = form != LoraForm::linear;
    const int64_t n_out = weight.shape[is_transposed ? 1 : 0], n_in = weight.shape[is_transposed ? 0 : 1];
    Rng rng(tensors.size() + 100);
    std::vector<float> down(static_cast<size_t>(rank * n_in)), up(static_cast<size_t>(n_out * rank));
    for (float& value : down) value = rng.next_float(-1.0f, 1.0f);
    for (float& value : up) value = rng.next_float(-0.2f, 0.2f);
    std::vector<float> values = floats_of(weight.bytes);
    for (int64_t out = 0; out < n_out; ++out)
      for (int64_t in = 0; in < n_in; ++in) {
        double sum = 0;
        for (int64_t j = 0; j < rank; ++j)
          sum += double{up[static_cast<size_t>(out * rank + j)]} * double{down[static_cast<size_t>(j * n_in + in)]};
        values[static_cast<size_t>(is_transposed ? in * n_out + out : out * n_in + in)] +=
            scale * static_cast<float>(sum);
      }
    weight.bytes = hub_bytes(values, "F32");
    const bool is_table = form == LoraForm::table;
    const std::string name = prefix + module + (is_table ? ".lora_embedding_" : ".lora_");
    const std::string end = is_table ? "" : ".weight";
    tensors.push_back({name + "A" + end, "F32", {rank, n_in}, hub_bytes(down, "F32")});
    tensors.push_back({name + "B" + end, "F32", {n_out, rank}, hub_bytes(up, "F32")});
  }

  std::string write(const std::string& name) const {
    return write_folder(
        name, {{"adapter_config.json", config.dump()}, {"adapter_model.safetensors", safetensors_of(tensors)}});
  }
};

}  // namespace tessera::testing
