#include "tessera/convert/general_keys.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/gguf/keys.h"

namespace tessera::convert {

namespace {

/// A setting of generation_config.json.
struct SamplingKey {
  std::string_view name, key;
  bool is_integer;
};
constexpr SamplingKey kSamplingKeys[] = {
    {"temperature", "general.sampling.temp", false},
    {"top_k", "general.sampling.top_k", true},
    {"top_p", "general.sampling.top_p", false},
    {"min_p", "general.sampling.min_p", false},
    {"repetition_penalty", "general.sampling.penalty_repeat", false},
};

// The folder's own name. A path may end with a slash or be relative.
std::string name_of_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(folder, error).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return path.filename().string();
}

Result<> add_sampling(const Checkpoint& checkpoint, GgufBuilder& builder) {
  constexpr const char* kFile = "generation_config.json";
  TESSERA_ASSIGN(const std::optional<Json> config, checkpoint.read_json_file(kFile));
  if (!config || !config->is_object()) return {};
  for (const SamplingKey& row : kSamplingKeys) {
    const auto value = config->find(row.name);
    if (value == config->end() || value->is_null()) continue;
    const double number = value->is_number() ? value->get<double>() : NAN;
    const bool fits = row.is_integer ? value->is_number_integer() && std::abs(number) <= INT32_MAX
                                     : std::isfinite(static_cast<float>(number));
    if (!fits)
      return fail(ErrorCode::format, "{}/{}: {}: want {}", checkpoint.folder(), kFile, row.name,
                  row.is_integer ? "an integer of 32 bits" : "a number");
    if (row.is_integer)
      builder.set(row.key, static_cast<int32_t>(number));
    else
      builder.set(row.key, static_cast<float>(number));
  }
  return {};
}

}  // namespace

Result<> add_general_keys(const Checkpoint& checkpoint, std::string_view architecture, GgufBuilder& builder) {
  builder.set(keys::kArchitecture, architecture);
  builder.set(keys::kType, "model");
  const std::string name = name_of_folder(checkpoint.folder());
  if (!name.empty()) builder.set(keys::kName, name);
  return add_sampling(checkpoint, builder);
}

}  // namespace tessera::convert
