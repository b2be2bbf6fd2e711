// Makes libraries that look like a libllama, with structs of any layout.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/support/testing.h"

namespace tessera::testing {

/// The structs of a library, and the code of its functions.
struct LlamaLibraryShape {
  int model_bytes = 72;
  int context_bytes = 160;
  int threads_at = 24;
  int mmap_at = 0;
  int extra_at = 66;
  int n_batch = 2048;
  std::string version{};  // "": no llama_version()
  std::string first{};    // what llama_model_default_params() does first
  std::string more{};     // other code of the file
};

inline std::string llama_library_source(const LlamaLibraryShape& shape) {
  const auto text = [](int number) { return std::to_string(number); };
  std::string source = "#include <stdlib.h>\n#include <unistd.h>\n" + shape.more + "\n";
  source += "struct model { unsigned char b[" + text(shape.model_bytes) + "]; };\n";
  source += "struct context { int n[" + text(shape.context_bytes / 4) + "]; };\n";
  source += "struct model llama_model_default_params(void) { struct model m = {{0}}; " + shape.first + " m.b[" +
            text(shape.mmap_at > 0 ? shape.mmap_at : shape.extra_at) + "] = 1; m.b[" + text(shape.extra_at) +
            "] = 1; return m; }\n";
  source += "struct context llama_context_default_params(void) { struct context c = {{512, " + text(shape.n_batch) +
            ", 512, 1}}; c.n[" + text(shape.threads_at / 4) + "] = 4; c.n[" + text(shape.threads_at / 4 + 1) +
            "] = 4; return c; }\n";
  if (!shape.version.empty()) source += "const char* llama_version(void) { return \"" + shape.version + "\"; }\n";
  return source;
}

/// Compiles a C source to a library at a path, whose folders are made. options: for the linker, after the source.
inline void compile_library(const std::string& source, const std::string& path, const std::string& options = "") {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  const std::string file = write_temporary("llama_library.c", source);
  ASSERT_EQ(std::system(("cc -shared -fPIC -O1 -o '" + path + "' '" + file + "' " + options).c_str()), 0) << source;
}

inline void compile_llama_library(const LlamaLibraryShape& shape, const std::string& path) {
  compile_library(llama_library_source(shape), path);
}

}  // namespace tessera::testing
