#include "tessera/convert/general_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/convert/model_card.h"
#include "tessera/gguf/keys.h"
#include "tessera/text/utf8.h"

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

// The folder's own name. A path may end with a slash or be relative. A snapshot in the cache of a hub's tools,
// models--USER--REPO/snapshots/COMMIT, has the name of its repository.
std::string name_of_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(folder, error).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (path.parent_path().filename() == "snapshots") {
    const std::string cached = path.parent_path().parent_path().filename().string();
    if (cached.starts_with("models--")) return cached.substr(cached.rfind("--") + 2);
  }
  return path.filename().string();
}

Result<> add_sampling(const Checkpoint& checkpoint, GgufBuilder& builder) {
  constexpr const char* kFile = "generation_config.json";
  TESSERA_ASSIGN(const JsonTree config, checkpoint.read_json_file(kFile));
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

/// A member of a card's front matter that becomes a text, and its key.
struct CardText {
  std::string_view name, key;
};
constexpr CardText kCardTexts[] = {{"model_name", keys::kName},
                                   {"license", keys::kLicense},
                                   {"license_name", "general.license.name"},
                                   {"license_link", "general.license.link"}};

/// Members that become lists. Several of one key are joined.
constexpr CardText kCardLists[] = {
    {"tags", keys::kTags}, {"pipeline_tag", keys::kTags}, {"language", keys::kLanguages}};

/// Names of other models or of data sets, as "owner/name" each.
constexpr CardText kCardReferences[] = {{"base_model", "general.base_model"}, {"datasets", "general.dataset"}};

const CardField* find_field(std::span<const CardField> card, std::string_view name) {
  const auto field = std::ranges::find(card, name, &CardField::name);
  return field == card.end() ? nullptr : &*field;
}

void add_references(const CardField& field, std::string_view key, GgufBuilder& builder) {
  builder.set(fmt::format("{}.count", key), static_cast<uint32_t>(field.values.size()));
  for (size_t i = 0; i < field.values.size(); ++i) {
    const std::string& value = field.values[i];
    const size_t slash = value.find('/');
    const bool has_owner = slash != std::string::npos && value.find('/', slash + 1) == std::string::npos;
    builder.set(fmt::format("{}.{}.name", key, i), has_owner ? value.substr(slash + 1) : value);
    if (!has_owner) continue;
    builder.set(fmt::format("{}.{}.organization", key, i), value.substr(0, slash));
    builder.set(fmt::format("{}.{}.repo_url", key, i), "https://huggingface.co/" + value);
  }
}

Result<> add_card(const Checkpoint& checkpoint, GgufBuilder& builder) {
  TESSERA_ASSIGN(const std::optional<std::string> text, checkpoint.read_text("README.md", kMaxCardBytes));
  if (!text || !text::is_valid_utf8(*text)) return {};
  const std::vector<CardField> card = read_model_card(*text);
  for (const CardText& row : kCardTexts)
    if (const CardField* field = find_field(card, row.name)) builder.set(row.key, field->values[0]);
  for (const std::string_view key : {keys::kTags, keys::kLanguages}) {
    std::vector<std::string> values;
    for (const CardText& row : kCardLists)
      if (const CardField* field = find_field(card, row.name); field != nullptr && row.key == key)
        values.insert(values.end(), field->values.begin(), field->values.end());
    if (!values.empty()) builder.set_array(key, values);
  }
  for (const CardText& row : kCardReferences)
    if (const CardField* field = find_field(card, row.name)) add_references(*field, row.key, builder);
  return {};
}

// Two digits, and all of a number before the unit: 1.2B, 71B, 360M.
std::string rounded_count(double n) {
  constexpr std::pair<double, char> kUnits[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
  const auto* unit = std::ranges::find_if(kUnits, [&](const auto& row) { return n >= row.first; });
  if (unit == std::end(kUnits)) --unit;
  const double scaled = n / unit->first;
  return fmt::format("{:.{}f}{}", scaled, scaled < 9.5 ? 1 : 0, unit->second);
}

}  // namespace

std::string size_label(std::span<const ConvertedTensor> tensors) {
  double n_shared = 0, n_of_experts = 0;
  int64_t n_experts = 0;
  for (const ConvertedTensor& tensor : tensors) {
    double n = tensor.parts.empty() ? 1 : static_cast<double>(element_values(tensor.parts[0].view.type));
    for (const int64_t extent : tensor.shape) n *= static_cast<double>(extent);
    const bool is_stack = tensor.name.find("_exps.") != std::string::npos && tensor.shape.size() > 1;
    (is_stack ? n_of_experts : n_shared) += n;
    if (is_stack) n_experts = std::max(n_experts, tensor.shape[0]);
  }
  if (n_experts == 0) return rounded_count(n_shared);
  return fmt::format("{}x{}", n_experts, rounded_count(n_shared + n_of_experts / static_cast<double>(n_experts)));
}

Result<> add_general_keys(const Checkpoint& checkpoint, std::string_view architecture, GgufBuilder& builder) {
  builder.set(keys::kArchitecture, architecture);
  builder.set(keys::kType, "model");
  const std::string name = name_of_folder(checkpoint.folder());
  if (!name.empty()) builder.set(keys::kName, name);
  TESSERA_TRY(add_card(checkpoint, builder));
  return add_sampling(checkpoint, builder);
}

}  // namespace tessera::convert
