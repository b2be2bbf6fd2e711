// Asks a libllama for its defaults, in a process of its own: the library may crash or hang.
#pragma once

#include <string>

#include "tessera/cli/llama_layout.h"

namespace tessera::cli {

inline constexpr int kLlamaProbeMs = 20000;

/// Loads the library and calls its default functions. Errors: format (it cannot be loaded, has no such functions, or
/// crashes), limit (it takes too long), io (there is no process for it).
Result<LlamaDefaults> probe_llama_library(const std::string& path, int limit_ms = kLlamaProbeMs);

}  // namespace tessera::cli
