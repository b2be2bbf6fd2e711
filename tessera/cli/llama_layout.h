// Layouts of the structs of llama.h, and which one a libllama has. Programs pass these structs by value, so a library
// of another layout would read other members.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

/// A row of tessera/llama/layouts/layouts.def.
struct LlamaLayout {
  std::string_view name;     // "0.5"
  std::string_view version;  // of llama_version(), or ""
  size_t model_bytes;
  size_t context_bytes;
  size_t threads_at;
  size_t mmap_at;  // 0: none
  size_t extra_at;
  std::string_view users;
};

/// All layouts, the newest first.
std::span<const LlamaLayout> llama_layouts();

/// The layout of this name. Error: invalid_argument, with the names.
Result<const LlamaLayout*> find_llama_layout(std::string_view name);

/// The bytes that the functions of a libllama write as its defaults, and llama_version(), or "" without one.
struct LlamaDefaults {
  std::vector<std::byte> model;
  std::vector<std::byte> context;
  std::string version;
};

/// The only layout that such defaults have. Error: unsupported, with the sizes and offsets that were seen.
Result<const LlamaLayout*> match_llama_layout(const LlamaDefaults& defaults);

}  // namespace tessera::cli
