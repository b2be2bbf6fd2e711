#include "tessera/cli/llama_folder.h"

#include <fmt/ranges.h>

#include <array>
#include <optional>

#include "tessera/cli/llama_probe.h"

namespace tessera::cli {

namespace fs = std::filesystem;

namespace {

// lib/tessera/llama of the installation or the build that the program is part of.
Result<fs::path> folder_of_layouts() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail(ErrorCode::io, "/proc/self/exe: {}", error.message());
  const fs::path prefix = program.parent_path().parent_path();
  for (const char* lib : {TESSERA_LIBDIR, "lib"})
    if (fs::is_directory(prefix / lib / "tessera/llama", error)) return prefix / lib / "tessera/llama";
  return prefix / "lib/tessera/llama";
}

Result<const LlamaLayout*> layout_of(const std::string& library) {
  TESSERA_ASSIGN(const LlamaDefaults defaults, probe_llama_library(library));
  auto layout = match_llama_layout(defaults);
  if (!layout) return forward_error(layout, library);
  return layout;
}

// A package may have several, for the devices that it supports. Those that cannot be loaded here do not count if
// another one can.
Result<const LlamaLayout*> common_layout(std::span<const std::string> libraries) {
  const LlamaLayout* common = nullptr;
  std::string_view of;
  std::optional<Error> first_error;
  for (const std::string& library : libraries) {
    auto layout = layout_of(library);
    if (!layout) {
      if (!first_error) first_error = std::move(layout.error());
      continue;
    }
    if (common != nullptr && common != *layout)
      return fail(ErrorCode::mismatch, "{} has the layout {}, {} has {}: name one of them", of, common->name, library,
                  (*layout)->name);
    common = *layout;
    of = library;
  }
  if (common == nullptr) return std::unexpected(std::move(*first_error));  // there is at least one library
  return common;
}

Result<std::string> folder_for_libraries(std::span<const std::string> libraries, WithGgml ggml) {
  TESSERA_ASSIGN(const LlamaLayout* layout, common_layout(libraries));
  if (ggml == WithGgml::if_none_beside)
    ggml = ggml_libraries_beside(libraries.front()).empty() ? WithGgml::yes : WithGgml::no;
  return llama_folder(*layout, ggml);
}

}  // namespace

Result<std::string> llama_folder(const LlamaLayout& layout, WithGgml ggml) {
  TESSERA_ASSIGN(fs::path folder, folder_of_layouts());
  folder /= layout.name;
  std::error_code error;
  if (!fs::exists(folder / "libllama.so", error))
    return fail(ErrorCode::not_found, "layout {}: this installation has no library of it ({})", layout.name,
                folder.string());
  return (ggml == WithGgml::yes ? folder / "ggml" : folder).string();
}

Result<std::string> llama_folder_for(std::span<const fs::path> places, WithGgml ggml) {
  std::vector<std::string_view> searched;
  for (const fs::path& place : places) {
    auto libraries = find_llama_libraries(place);
    if (libraries) return folder_for_libraries(*libraries, ggml);
    if (libraries.error().code() != ErrorCode::not_found) return forward_error(libraries);
    searched.push_back(place.native());
  }
  return fail(ErrorCode::not_found, "no libllama*.so in or below {}: name the layout with --layout",
              fmt::join(searched, ", "));
}

Result<std::string> llama_folder_for(const std::string& path, WithGgml ggml) {
  std::error_code error;
  if (!fs::exists(path, error)) return fail(ErrorCode::not_found, "{}: no such file or folder", path);
  const fs::path file = fs::absolute(path, error);
  if (!fs::is_directory(file, error) && is_llama_library_name(file.filename().native()))
    return folder_for_libraries(std::array{file.string()}, ggml);
  return llama_folder_for(llama_places(file), ggml);
}

}  // namespace tessera::cli
