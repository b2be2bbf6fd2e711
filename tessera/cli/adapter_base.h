// The base model of a LoRA adapter that `tessera convert` reads: only its config.json is needed.
#pragma once

#include <string>

#include "tessera/base/result.h"

namespace tessera::cli {

/// The folder with the config.json of the model that an adapter is for. adapter: the adapter's folder or file. base: a
/// folder, or the name of a model in the cache; "": what the adapter's own settings name.
/// Errors: not_found; those of read_lora_settings().
Result<std::string> find_adapter_base(const std::string& adapter, const std::string& base);

}  // namespace tessera::cli
