#include "tessera/convert/checkpoints/key_rows.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/convert/checkpoints/derived_values.h"
#include "tessera/gguf/keys.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr int64_t kMaxCount = INT32_MAX;

constexpr KeyRow kCommonKeys[] = {
#define TESSERA_KEY(key, names, type) {key, names, KeyType::type},
#include "tessera/convert/checkpoints/common_keys.def"
#undef TESSERA_KEY
};

std::string_view common_names(std::string_view key) { return std::ranges::find(kCommonKeys, key, &KeyRow::key)->names; }

Result<int64_t> count_of(const HubConfig& config, std::string_view names, int64_t most = kMaxCount) {
  TESSERA_ASSIGN(const auto count, config.integer(HubConfig::Names(split_names(names)), 0, most));
  return count.value_or(0);
}

// The names of a row with those of the common row instead of "*".
std::string with_common_names(const KeyRow& row) {
  constexpr std::string_view kAll = "*";
  std::string names(row.names);
  if (names.starts_with(kAll)) names.replace(0, kAll.size(), common_names(row.key));
  return names;
}

std::unexpected<Error> wrong_number(const HubConfig& config, const KeyRow& row, double number, std::string_view want) {
  return fail(ErrorCode::format, "{}: {} is {}, want {}", config.path(), row.names, number, want);
}

Result<std::optional<bool>> flag_of(const HubConfig& config, const KeyRow& row) {
  TESSERA_ASSIGN(const auto flag, config.flag(HubConfig::Names(split_names(row.names))));
  if (flag || row.absent.kind != Absent::Kind::given) return flag;
  return row.absent.number != 0;
}

Result<std::optional<std::string>> text_of(const HubConfig& config, const KeyRow& row) {
  TESSERA_ASSIGN(auto text, config.text(HubConfig::Names(split_names(row.names))));
  if (text || row.absent.kind != Absent::Kind::given) return text;
  return std::string(row.absent.text);
}

Result<std::optional<double>> value_of(const HubConfig& config, const KeyRow& row) {
  TESSERA_ASSIGN(const auto number, number_of(config, row.names));
  if (number) return *number * row.factor;
  if (row.absent.kind == Absent::Kind::given) return row.absent.number;
  return std::nullopt;
}

// Returns whether the key was set.
Result<bool> add_windows(const HubConfig& config, const std::string& key, GgufBuilder& builder) {
  TESSERA_ASSIGN(const auto types, layer_types_of(config));
  if (!types) return false;
  const std::unique_ptr<bool[]> windows(new bool[types->size()]);  // std::vector<bool> has no elements to refer to
  for (size_t i = 0; i < types->size(); ++i) windows[i] = (*types)[i] == "sliding_attention";
  builder.set_array(key, std::span<const bool>(windows.get(), types->size()));
  return true;
}

Result<bool> add_kv_heads(const HubConfig& config, const std::string& key, GgufBuilder& builder) {
  TESSERA_ASSIGN(const auto types, layer_types_of(config));
  if (!types) return false;
  TESSERA_ASSIGN(const int64_t n_heads, kv_heads_of(config));
  std::vector<int32_t> counts;
  for (const std::string& type : *types)
    counts.push_back(type == "full_attention" || type == "attention" ? static_cast<int32_t>(n_heads) : 0);
  builder.set_array(key, counts);
  return true;
}

Result<bool> add_dimensions(const HubConfig& config, const KeyRow& row, const std::string& key, GgufBuilder& builder) {
  constexpr size_t kCount = 4;
  TESSERA_ASSIGN(const auto numbers, config.integers(HubConfig::Names(split_names(row.names)), 0, kMaxCount));
  if (!numbers) return false;
  if (numbers->size() > kCount)
    return fail(ErrorCode::format, "{}: {}: {} numbers, limit {}", config.path(), row.names, numbers->size(), kCount);
  std::vector<int32_t> dimensions(numbers->begin(), numbers->end());
  dimensions.resize(kCount);
  builder.set_array(key, dimensions);
  return true;
}

/// The functions of scores of experts, by their names in configs.
struct GatingFunction {
  std::string_view name;
  uint32_t number;
};
constexpr GatingFunction kGatingFunctions[] = {
    {"softmax", 1}, {"sigmoid", 2}, {"sqrtsoftplus", 4}, {"noaux_tc", 2}};  // the last one is a name of DeepSeek-V3's

Result<bool> add_function(const HubConfig& config, const KeyRow& row, const std::string& key, GgufBuilder& builder) {
  TESSERA_ASSIGN(const auto name, text_of(config, row));
  if (!name) return false;
  const auto* found = std::ranges::find(kGatingFunctions, *name, &GatingFunction::name);
  if (found == std::end(kGatingFunctions))
    return fail(ErrorCode::unsupported, "{}: {} is {}, want softmax, sigmoid or sqrtsoftplus", config.path(), row.names,
                text::quote_text(*name));
  builder.set(key, found->number);
  return true;
}

Result<bool> add_number(const HubConfig& config, const KeyRow& row, const std::string& key, GgufBuilder& builder) {
  TESSERA_ASSIGN(const auto number, value_of(config, row));
  if (!number) return false;
  if (row.type == KeyType::f32) {
    const auto value = static_cast<float>(*number);
    if (!std::isfinite(value)) return wrong_number(config, row, *number, "a number within the range of 32 bits");
    builder.set(key, value);
    return true;
  }
  if (!(*number >= 0 && *number <= static_cast<double>(kMaxCount)) || *number != std::floor(*number))
    return wrong_number(config, row, *number, "an integer from 0 to 2147483647");
  builder.set(key, static_cast<uint32_t>(*number));
  return true;
}

Result<bool> add_key(const HubConfig& config, const KeyRow& row, const std::string& key, GgufBuilder& builder) {
  switch (row.type) {
    case KeyType::u32:
    case KeyType::f32:
      return add_number(config, row, key, builder);
    case KeyType::windows:
      return add_windows(config, key, builder);
    case KeyType::kv_heads:
      return add_kv_heads(config, key, builder);
    case KeyType::dimensions_4:
      return add_dimensions(config, row, key, builder);
    case KeyType::function:
      return add_function(config, row, key, builder);
    case KeyType::boolean: {
      TESSERA_ASSIGN(const auto flag, flag_of(config, row));
      if (flag) builder.set(key, *flag);
      return flag.has_value();
    }
    case KeyType::text: {
      TESSERA_ASSIGN(const auto text, text_of(config, row));
      if (text) builder.set(key, *text);
      return text.has_value();
    }
  }
  return false;
}

}  // namespace

std::span<const KeyRow> common_keys() { return kCommonKeys; }

std::vector<std::string_view> split_names(std::string_view names) {
  std::vector<std::string_view> parts;
  while (!names.empty()) {
    const size_t space = std::min(names.find(' '), names.size());
    if (space > 0) parts.push_back(names.substr(0, space));
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return parts;
}

Result<int64_t> embedding_of(const HubConfig& config) { return count_of(config, common_names("embedding_length")); }

Result<std::optional<double>> number_of(const HubConfig& config, std::string_view names) {
  for (const std::string_view name : split_names(names)) {
    const DerivedValue derived = find_derived_value(name);
    TESSERA_ASSIGN(const auto number, derived != nullptr ? derived(config) : config.number({name}));
    if (number) return number;
  }
  return std::nullopt;
}

Result<int64_t> layers_of(const HubConfig& config) { return count_of(config, common_names("block_count"), kMaxLayers); }
Result<int64_t> heads_of(const HubConfig& config) { return count_of(config, common_names("attention.head_count")); }
Result<int64_t> kv_heads_of(const HubConfig& config) {
  const std::string_view names = common_names("attention.head_count_kv");
  const Json* const stated = config.find(HubConfig::Names(split_names(names)));
  if (stated != nullptr && stated->is_array()) return heads_of(config);  // a number for each layer
  TESSERA_ASSIGN(const int64_t n, count_of(config, names));
  return n > 0 ? n : heads_of(config);
}

Result<int64_t> head_size_of(const HubConfig& config) {
  TESSERA_ASSIGN(const int64_t size, count_of(config, "head_dim"));
  if (size > 0) return size;
  TESSERA_ASSIGN(const int64_t embedding, embedding_of(config));
  TESSERA_ASSIGN(const int64_t n_heads, heads_of(config));
  return n_heads > 0 ? embedding / n_heads : 0;
}

Result<std::optional<std::vector<std::string>>> layer_types_of(const HubConfig& config) {
  constexpr std::string_view kWant = "want a list of one name per layer";
  const Json* list = config.find({"layer_types", "layers_block_type"});
  if (list == nullptr) return std::nullopt;
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  if (!list->is_array() || std::ssize(*list) < n_layers)
    return fail(ErrorCode::format, "{}: layer_types: {}", config.path(), kWant);
  std::vector<std::string> types;
  for (int64_t i = 0; i < n_layers; ++i) {
    const Json& item = (*list)[static_cast<size_t>(i)];
    if (!item.is_string()) return fail(ErrorCode::format, "{}: layer_types: {}", config.path(), kWant);
    types.push_back(item.get<std::string>());
  }
  return types;
}

Result<> add_rows(const HubConfig& config, std::string_view architecture, std::span<const KeyRow> rows,
                  GgufBuilder& builder) {
  for (KeyRow row : rows) {
    const std::string names = with_common_names(row);
    row.names = names;
    TESSERA_ASSIGN(const bool is_set, add_key(config, row, keys::arch_key(architecture, row.key), builder));
    if (!is_set && row.absent.kind == Absent::Kind::required)
      return fail(ErrorCode::not_found, "{}: no {}, which {} needs for the key {}", config.path(), row.names,
                  architecture, row.key);
  }
  return {};
}

Result<> add_keys(const HubConfig& config, std::string_view architecture, std::span<const KeyRow> rows,
                  GgufBuilder& builder) {
  for (const KeyRow& row : kCommonKeys)
    if (std::ranges::find(rows, row.key, &KeyRow::key) == rows.end())
      TESSERA_TRY(add_rows(config, architecture, std::span(&row, 1), builder));
  return add_rows(config, architecture, rows, builder);
}

}  // namespace tessera::convert
