// The folder with the libllama of ours that fits a program.
#pragma once

#include <string>

#include "tessera/cli/llama_layout.h"
#include "tessera/cli/llama_search.h"

namespace tessera::cli {

/// Which of a layout's folders: with our libggml too, or libllama alone.
enum class WithGgml : uint8_t { no, yes, if_none_beside };

/// The folder of a layout. Error: not_found (this installation has no library of the layout).
Result<std::string> llama_folder(const LlamaLayout& layout, WithGgml ggml);

/// The folder for the library in one of the places, the first that has any. Errors: those of the search, if no place
/// has one; those of probe_llama_library() and match_llama_layout(); mismatch (libraries of several layouts).
Result<std::string> llama_folder_for(std::span<const std::filesystem::path> places, WithGgml ggml);

/// The same for a program, a library, or a folder. Errors: not_found; as above.
Result<std::string> llama_folder_for(const std::string& path, WithGgml ggml);

}  // namespace tessera::cli
