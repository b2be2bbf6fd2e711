// Keys of a GGUF file that a value of config.json gives: rows of tables. common_keys() holds for every class of models;
// a class adds rows, or replaces a common row by one of the same key.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

enum class KeyType : uint8_t {
  u32,
  f32,
  boolean,
  text,
  windows,       // one boolean per layer: whether layer_types says sliding_attention
  kv_heads,      // one i32 per layer: the number of KV heads where layer_types says full_attention or attention, else 0
  dimensions_4,  // i32: a list, with zeros up to four numbers
  function,      // expert_gating_func: the number of a name
};

/// The value of a key that config.json leaves out.
struct Absent {
  enum class Kind : uint8_t { omitted, required, given };
  Kind kind = Kind::omitted;
  double number = 0;
  std::string_view text{};
};

inline constexpr Absent kRequired{.kind = Absent::Kind::required};
constexpr Absent otherwise(double number) { return {.kind = Absent::Kind::given, .number = number}; }
constexpr Absent otherwise_text(std::string_view text) { return {.kind = Absent::Kind::given, .text = text}; }

/// Names may be of other kinds: "=NAME" is a derived value, such as =head_size, and "*" stands for the names of the
/// common row of this key. A row of a class without names and without a value removes the common row.
struct KeyRow {
  std::string_view key;    // after the architecture and a dot
  std::string_view names;  // in config.json, separated by spaces; the first that it has counts
  KeyType type = KeyType::u32;
  Absent absent{};
  double factor = 1.0;  // of a number of config.json
};

/// The most layers that a config can state. Longer lists are refused before anything is made of them.
inline constexpr int64_t kMaxLayers = 4096;

std::span<const KeyRow> common_keys();

/// Names that are separated by spaces.
std::vector<std::string_view> split_names(std::string_view names);

/// The number of layers, the embedding, and the heads and KV heads, under the names of common_keys(); 0 where the
/// config has none.
Result<int64_t> layers_of(const HubConfig& config);
Result<int64_t> embedding_of(const HubConfig& config);
Result<int64_t> heads_of(const HubConfig& config);
Result<int64_t> kv_heads_of(const HubConfig& config);
/// The size of a head: head_dim, else the embedding divided by the heads; 0 if the config has neither.
Result<int64_t> head_size_of(const HubConfig& config);
/// The kind of each layer (layer_types); nothing if the config has none. Errors: format (no name for a layer).
Result<std::optional<std::vector<std::string>>> layer_types_of(const HubConfig& config);

/// Sets the keys of an architecture: the common rows, of which `rows` replaces those of the same name, and then `rows`.
/// Errors: format (a value of another type, or out of bounds); not_found (a required
/// value; names it and the key).
Result<> add_keys(const HubConfig& config, std::string_view architecture, std::span<const KeyRow> rows,
                  GgufBuilder& builder);

/// The same without the common rows.
Result<> add_rows(const HubConfig& config, std::string_view architecture, std::span<const KeyRow> rows,
                  GgufBuilder& builder);

/// The value of a name, or of a derived "=NAME", as a number; nothing if there is none.
Result<std::optional<double>> number_of(const HubConfig& config, std::string_view names);

}  // namespace tessera::convert
