#include "tessera/convert/adapter/lora_settings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/convert/source/hub_config.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

/// A setting that changes more than pairs of matrices can say.
struct RefusedSetting {
  std::string_view name, meaning;
};
constexpr RefusedSetting kRefusedSettings[] = {
    {"use_dora", "DoRA, which also scales the rows of weights"},
    {"use_qalora", "QALoRA, which adds up groups of inputs"},
    {"lora_bias", "biases of the products"},
    {"modules_to_save", "whole modules"},
    {"target_parameters", "parameters that are no modules"},
    {"trainable_token_indices", "rows of single tokens"},
    {"layer_replication", "layers that stand several times"},
    {"alora_invocation_tokens", "tokens that switch the adapter on"},
};

bool is_empty(const Json* value) { return value == nullptr || *value == false || value->empty(); }

Result<> refuse_more_than_pairs(const HubConfig& config) {
  TESSERA_ASSIGN(const auto type, config.text({"peft_type"}));
  if (type.value_or("LORA") != "LORA")
    return fail(ErrorCode::unsupported, "{}: an adapter of type {}, want LORA", config.path(), text::quote_text(*type));
  TESSERA_ASSIGN(const auto bias, config.text({"bias"}));
  if (bias.value_or("none") != "none")
    return fail(ErrorCode::unsupported, "{}: bias is {}: a GGUF adapter cannot hold biases of the base model",
                config.path(), text::quote_text(*bias));
  for (const RefusedSetting& row : kRefusedSettings)
    if (!is_empty(config.find({row.name})))
      return fail(ErrorCode::unsupported, "{}: {} is set: a GGUF adapter cannot hold {}", config.path(), row.name,
                  row.meaning);
  return {};
}

// PEFT compares modules with these patterns as regular expressions. Those with operators are refused.
Result<std::vector<std::pair<std::string, double>>> own_alphas_of(const HubConfig& config) {
  constexpr std::string_view kName = "alpha_pattern", kOperators = "^$*+?()[]{}|\\";
  std::vector<std::pair<std::string, double>> alphas;
  const Json* patterns = config.find({kName});
  if (patterns == nullptr) return alphas;
  if (!patterns->is_object()) return fail(ErrorCode::format, "{}: {}: want an object", config.path(), kName);
  for (const auto& [pattern, alpha] : patterns->items()) {
    if (!alpha.is_number() || !std::isfinite(alpha.get<double>()) || alpha.get<double>() == 0)
      return fail(ErrorCode::format, "{}: {} of {}: want a number other than 0", config.path(), kName,
                  text::quote_text(pattern));
    if (pattern.find_first_of(kOperators) != std::string::npos)
      return fail(ErrorCode::unsupported, "{}: {}: {} is a regular expression, want names of modules", config.path(),
                  kName, text::quote_text(pattern));
    alphas.emplace_back(pattern, alpha.get<double>());
  }
  return alphas;
}

// Whether a module has this name, or ends with it after a dot.
bool ends_like(std::string_view module, std::string_view pattern) {
  if (!module.ends_with(pattern)) return false;
  module.remove_suffix(pattern.size());
  return module.empty() || module.ends_with('.');
}

}  // namespace

std::optional<std::string> find_adapter(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  if (!fs::exists(folder / kAdapterConfigFile, error)) return std::nullopt;
  for (const char* const name : kAdapterTensorFiles) {
    const fs::path file = folder / name;
    if (is_folder ? fs::exists(file, error) : fs::path(path).filename() == name) return file.string();
  }
  return std::nullopt;
}

Result<LoraSettings> read_lora_settings(const std::string& path) {
  TESSERA_ASSIGN(JsonTree json, read_hub_json(path));
  if (!json) return fail(ErrorCode::not_found, "{}: no such file", path);
  TESSERA_ASSIGN(const HubConfig config, HubConfig::of(std::move(json), path));
  TESSERA_TRY(refuse_more_than_pairs(config));
  LoraSettings settings;
  TESSERA_ASSIGN(const auto base, config.text({"base_model_name_or_path"}));
  TESSERA_ASSIGN(const auto alpha, config.number({"lora_alpha"}));
  TESSERA_ASSIGN(const auto is_stabilized, config.flag({"use_rslora"}));
  TESSERA_ASSIGN(settings.own_alphas, own_alphas_of(config));
  settings.base = base.value_or("");
  settings.alpha = alpha.value_or(settings.alpha);
  settings.is_rank_stabilized = is_stabilized.value_or(false);
  if (settings.alpha == 0) return fail(ErrorCode::format, "{}: lora_alpha is 0: the adapter changes nothing", path);
  return settings;
}

double alpha_of(const LoraSettings& settings, std::string_view module, int64_t rank) {
  const auto own =
      std::ranges::find_if(settings.own_alphas, [&](const auto& pattern) { return ends_like(module, pattern.first); });
  const double alpha = own != settings.own_alphas.end() ? own->second : settings.alpha;
  return settings.is_rank_stabilized ? alpha * std::sqrt(static_cast<double>(rank)) : alpha;
}

}  // namespace tessera::convert
