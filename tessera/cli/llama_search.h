// Finds the libllama of a program or a package.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

/// Limits of a search below a folder.
struct SearchLimits {
  size_t depth = 12;
  size_t entries = 200000;
  size_t libraries = 16;
};

/// Names like libllama.so, libllama.so.0 and libllama.v0.5.0.so.
bool is_llama_library_name(std::string_view name);

/// The libraries nearest below a folder, in order of their names: all of the same depth, each file once. Links to
/// folders are not followed. Errors: not_found; limit (none among the first entries).
Result<std::vector<std::string>> find_llama_libraries(const std::filesystem::path& folder,
                                                      const SearchLimits& limits = {});

/// The folders in which the library of a program may be, in the order to search: its own, and "lib" beside its "bin".
/// A folder is its own place.
std::vector<std::filesystem::path> llama_places(const std::filesystem::path& program);

/// The file that a command name means: a path, or the first of its name in PATH. Error: not_found.
Result<std::string> find_program(const std::string& name);

/// Files like libggml.so and libggml-base.so in the folder of a library, in order of their names.
std::vector<std::string> ggml_libraries_beside(const std::string& library);

}  // namespace tessera::cli
