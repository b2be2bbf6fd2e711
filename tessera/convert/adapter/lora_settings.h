// The adapter_config.json of a LoRA adapter, in the form of the PEFT library (Hu et al. 2021).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::convert {

struct LoraSettings {
  std::string base{};  // the name of the base model, or its folder; "": none
  double alpha = 8;
  bool is_rank_stabilized = false;                           // the scale is alpha / sqrt(rank), else alpha / rank
  std::vector<std::pair<std::string, double>> own_alphas{};  // of modules that end like this; the first counts
};

/// The path of the tensors of an adapter: of a folder with adapter_config.json and adapter_model.safetensors or
/// adapter_model.bin, or of this file itself. Nothing for other paths.
std::optional<std::string> find_adapter(const std::string& path);

/// Reads a file. Errors: not_found; format (a member of another type; alpha is 0); unsupported (another kind of
/// adapter, or more than pairs of matrices); those of reading JSON.
Result<LoraSettings> read_lora_settings(const std::string& path);

/// The scale of a module's product times its rank: the alpha of a file in which the scale is alpha / rank.
double alpha_of(const LoraSettings& settings, std::string_view module, int64_t rank);

}  // namespace tessera::convert
