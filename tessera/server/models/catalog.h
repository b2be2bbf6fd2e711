// The models that a server offers: those of a directory, and those that a file of presets names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/server/models/model_names.h"
#include "tessera/server/models/preset.h"

namespace tessera::server {

enum class ModelOrigin : uint8_t { flag, directory, preset };

/// A model that can be loaded.
struct CatalogEntry {
  std::string name{};                  // for clients
  std::string path{};                  // of the file, or of its first part; "" for the bundled model
  std::vector<std::string> aliases{};  // further names
  std::vector<std::string> tags{};
  std::vector<PresetSetting> settings{};  // flags of [*], then those of its own section
  std::optional<NamedModel> named{};      // by a client; its name is the only one then
  ModelOrigin origin = ModelOrigin::flag;
  bool is_loaded_first = false;  // load-on-startup
};

inline constexpr size_t kMaxCatalogEntries = 10'000;

/// Lists the GGUF files of a directory, sorted by name. A folder in it is one model. Of a model in parts the first one
/// counts. The name is that of the file without .gguf and the numbers of a part, or the folder's. Files for other kinds
/// of input (mmproj) are left out. Errors: io; limit (kMaxCatalogEntries).
Result<std::vector<CatalogEntry>> list_models(const std::string& directory);

struct CatalogPaths {
  std::string directory{};  // --models-dir, or ""
  std::string presets{};    // --models-preset, or ""
};

/// Reads both, and the names that clients gave to models of the directory. Sections name models of the directory, or
/// have a key `model` with a path, from the folder of the presets if it is relative. Errors: those of list_models() and
/// parse_presets(); io; not_found (a section without a model).
Result<std::vector<CatalogEntry>> read_catalog(const CatalogPaths& paths);

/// Whether clients may call the model so: by its name, an alias, or the name of its file, each with or without ".gguf"
/// and ":latest".
bool is_name_of(const CatalogEntry& entry, std::string_view name);
/// A name without ".gguf" and ":latest" at its end.
std::string_view bare_model_name(std::string_view name);

}  // namespace tessera::server
