// The models in the cache of downloads, as commands list and remove them.
#pragma once

#include <string>

#include "tessera/hub/inventory.h"

namespace tessera::cli {

/// Prints a row per model: name, size, revision, path; or a line of JSON per model. only: of this repository; "": all.
/// Errors: io.
Result<> print_cached_models(const std::string& cache_dir, const std::string& only, bool as_json);

/// Removes a model, by its name or URL, and prints how much. Errors: those of hub::remove_model().
Result<> remove_cached_model(const std::string& cache_dir, const std::string& name, bool as_json);

}  // namespace tessera::cli
