// Names that clients gave to models (--models-write): small JSON files NAME.json beside the files of the models.
//     {"tessera_name": 1, "file": "coder.gguf", "system": "...", "messages": [...], "options": {...},
//      "adapters": ["blobs/sha256-..."]}
// A file of this kind with "hidden": true says that the name of a model's own file was deleted, while other names still
// need the file.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::server {

struct NamedModel {
  std::string file{};                   // of the model, in the directory of the names
  std::string system{};                 // system text of Ollama requests without one; may be empty
  std::string messages{};               // JSON: a list of messages that begin a chat; may be empty
  std::string options{};                // JSON: an object of defaults for `options`; may be empty
  std::vector<std::string> adapters{};  // LoRA files in the directory of the names
  bool is_hidden = false;
};

inline constexpr size_t kMaxNamedModelBytes = size_t{1} << 20;
inline constexpr size_t kMostNamedAdapters = 16;

/// Whether a client may give a model this name: NAME or NAME:TAG, each 1 to 100 letters, digits, dots, underscores or
/// hyphens, the first no dot. So it names a file in the directory and no other.
bool is_model_name(std::string_view name);
inline constexpr std::string_view kModelNameForm =
    "NAME or NAME:TAG, each of 1 to 100 letters, digits, dots, underscores or hyphens, the first no dot";

/// Errors: format (no such file, or not of this kind).
Result<NamedModel> parse_named_model(std::string_view text);
std::string named_model_text(const NamedModel& model);

/// The named models of a directory, by name. Other files, and those that cannot be read, are left out. Errors: io;
/// limit (`n_most`).
using NamedModels = std::vector<std::pair<std::string, NamedModel>>;
Result<NamedModels> read_named_models(const std::string& directory, size_t n_most);

}  // namespace tessera::server
