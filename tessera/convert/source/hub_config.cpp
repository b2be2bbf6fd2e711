#include "tessera/convert/source/hub_config.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace tessera::convert {

namespace {

constexpr size_t kMaxShownBytes = 60;  // of a wrong value

// Members that hold the config of the language model.
constexpr std::string_view kLanguageModels[] = {"text_config", "llm_config", "lm_config", "language_config"};

const Json* object_of(const Json& config, std::string_view name) {
  const auto found = config.find(name);
  return found != config.end() && found->is_object() ? &*found : nullptr;
}

const Json* language_model_of(const Json& config) {
  for (const std::string_view name : kLanguageModels)
    if (const Json* part = object_of(config, name)) return part;
  const Json* thinker = object_of(config, "thinker_config");
  return thinker == nullptr ? nullptr : object_of(*thinker, "text_config");
}

std::string class_of(const Json& config) {
  const auto classes = config.find("architectures");
  if (classes == config.end() || !classes->is_array() || classes->empty() || !classes->front().is_string()) return "";
  return classes->front().get<std::string>();
}

std::optional<int64_t> integer_of(const Json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  const auto number = value.get<int64_t>();
  if (number < least || number > most) return std::nullopt;
  return number;
}

}  // namespace

Result<HubConfig> HubConfig::read(const Checkpoint& checkpoint) {
  TESSERA_ASSIGN(JsonTree config, checkpoint.config());
  if (!config) return fail(ErrorCode::not_found, "{}: no config.json", checkpoint.folder());
  return of(std::move(config), checkpoint.folder() + "/config.json");
}

Result<HubConfig> HubConfig::read(const std::string& folder) {
  const std::string path = folder + "/config.json";
  TESSERA_ASSIGN(JsonTree config, read_hub_json(path));
  if (!config) return fail(ErrorCode::not_found, "{}: no config.json", folder);
  return of(std::move(config), path);
}

Result<HubConfig> HubConfig::of(std::shared_ptr<const Json> config, std::string path) {
  if (!config->is_object()) return fail(ErrorCode::format, "{}: no object", path);
  HubConfig result;
  result.path_ = std::move(path);
  result.class_name_ = class_of(*config);
  result.language_model_ = language_model_of(*config);
  if (result.language_model_ != nullptr)
    if (const std::string name = class_of(*result.language_model_); !name.empty()) result.class_name_ = name;
  result.config_ = std::move(config);
  return result;
}

Result<HubConfig> HubConfig::of(const Json& config, std::string path) {
  return of(std::shared_ptr<const Json>(JsonTree(new Json(config))), std::move(path));
}

Result<HubConfig> HubConfig::member(const Json& value, std::string path) const {
  return of(std::shared_ptr<const Json>(config_, &value), std::move(path));
}

const Json* HubConfig::value_of(std::string_view name) const {
  const Json* value = config_.get();
  if (language_model_ != nullptr && language_model_->contains(name.substr(0, name.find('.')))) value = language_model_;
  for (;;) {
    const size_t dot = name.find('.');
    const auto found = value->is_object() ? value->find(name.substr(0, dot)) : value->end();
    if (!value->is_object() || found == value->end() || found->is_null()) return nullptr;
    value = &*found;
    if (dot == std::string_view::npos) return value;
    name.remove_prefix(dot + 1);
  }
}

std::optional<std::string_view> HubConfig::name_of(const Names& names) const {
  for (const std::string_view name : names)
    if (value_of(name) != nullptr) return name;
  return std::nullopt;
}

const Json* HubConfig::find(const Names& names) const {
  const auto name = name_of(names);
  return name ? value_of(*name) : nullptr;
}

std::unexpected<Error> HubConfig::wrong(std::string_view name, const Json& value, std::string_view want) const {
  std::string shown = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (shown.size() > kMaxShownBytes) shown = shown.substr(0, kMaxShownBytes) + "...";
  return fail(ErrorCode::format, "{}: {} is {}, want {}", path_, name, shown, want);
}

Result<std::optional<int64_t>> HubConfig::integer(const Names& names, int64_t least, int64_t most) const {
  const Json* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (const auto number = integer_of(*value, least, most)) return number;
  return wrong(*name_of(names), *value, fmt::format("an integer from {} to {}", least, most));
}

Result<std::optional<double>> HubConfig::number(const Names& names) const {
  const Json* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) return wrong(*name_of(names), *value, "a number");
  return value->get<double>();
}

Result<std::optional<bool>> HubConfig::flag(const Names& names) const {
  const Json* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return wrong(*name_of(names), *value, "true or false");
  return value->get<bool>();
}

Result<std::optional<std::string>> HubConfig::text(const Names& names) const {
  const Json* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong(*name_of(names), *value, "a string");
  return value->get<std::string>();
}

Result<std::optional<std::vector<int64_t>>> HubConfig::integers(const Names& names, int64_t least, int64_t most) const {
  const Json* value = find(names);
  if (value == nullptr) return std::nullopt;
  std::vector<int64_t> numbers;
  if (value->is_array())
    for (const Json& item : *value)
      if (const auto number = integer_of(item, least, most)) numbers.push_back(*number);
  if (!value->is_array() || numbers.size() != value->size())
    return wrong(*name_of(names), *value, fmt::format("a list of integers from {} to {}", least, most));
  return numbers;
}

Result<int64_t> HubConfig::require_integer(const Names& names, int64_t least, int64_t most) const {
  TESSERA_ASSIGN(const std::optional<int64_t> number, integer(names, least, most));
  if (!number) return fail(ErrorCode::not_found, "{}: no {}", path_, *names.begin());
  return *number;
}

}  // namespace tessera::convert
