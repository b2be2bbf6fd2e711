#include "tessera/cli/llama_search.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ranges>
#include <set>

namespace tessera::cli {

namespace fs = std::filesystem;

namespace {

bool is_library_name(std::string_view name, std::string_view stem, std::string_view after_stem) {
  if (!name.starts_with(stem)) return false;
  const std::string_view rest = name.substr(stem.size());
  return !rest.empty() && after_stem.find(rest[0]) != std::string_view::npos &&
         (rest.ends_with(".so") || rest.find(".so.") != std::string_view::npos);
}

bool is_ggml_library_name(std::string_view name) { return is_library_name(name, "libggml", ".-"); }

// One folder after another, level by level.
class LlamaSearch {
 public:
  LlamaSearch(const fs::path& folder, const SearchLimits& limits) : limits_(limits), level_{folder} {}

  /// Whether all levels within the limits have been read, or one with libraries.
  bool run() {
    for (size_t depth = 0; depth <= limits_.depth && !level_.empty() && found_.empty(); ++depth) {
      next_.clear();
      for (const fs::path& folder : level_)
        if (!read(folder)) return false;
      level_ = next_;
    }
    return true;
  }
  const std::set<std::string>& found() const { return found_; }

 private:
  bool read(const fs::path& folder) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (++n_entries_ > limits_.entries) return false;
      std::error_code no_type;
      if (is_llama_library_name(at->path().filename().native()) && at->is_regular_file(no_type))
        found_.insert(fs::canonical(at->path(), no_type).string());
      else if (!at->is_symlink(no_type) && at->is_directory(no_type))
        next_.push_back(at->path());
    }
    return true;
  }

  SearchLimits limits_;
  size_t n_entries_ = 0;
  std::vector<fs::path> level_, next_;
  std::set<std::string> found_;
};

bool is_executable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

bool is_llama_library_name(std::string_view name) { return is_library_name(name, "libllama", "."); }

Result<std::vector<std::string>> find_llama_libraries(const fs::path& folder, const SearchLimits& limits) {
  LlamaSearch search(folder, limits);
  const bool is_complete = search.run();
  const std::set<std::string>& found = search.found();
  if (!found.empty()) {
    std::vector<std::string> nearest(found.begin(), found.end());
    nearest.resize(std::min(nearest.size(), limits.libraries));
    return nearest;
  }
  if (!is_complete)
    return fail(ErrorCode::limit, "{}: no libllama*.so among the first {} files below it", folder.string(),
                limits.entries);
  return fail(ErrorCode::not_found, "{}: no libllama*.so in it or below", folder.string());
}

std::vector<fs::path> llama_places(const fs::path& program) {
  std::error_code error;
  if (fs::is_directory(program, error)) return {program};
  const fs::path folder = fs::absolute(program, error).parent_path();
  std::vector<fs::path> places{folder};
  if (folder.filename() == "bin") places.push_back(folder.parent_path() / "lib");
  return places;
}

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_executable(name)) return name;
    return fail(ErrorCode::not_found, "{}: no program", name);
  }
  const char* path = std::getenv("PATH");
  for (const auto part : std::views::split(std::string_view(path == nullptr ? "" : path), ':')) {
    const fs::path candidate = fs::path(part.begin(), part.end()) / name;
    if (!name.empty() && is_executable(candidate)) return candidate.string();
  }
  return fail(ErrorCode::not_found, "{}: no program of this name in PATH", name);
}

std::vector<std::string> ggml_libraries_beside(const std::string& library) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(fs::path(library).parent_path(), error), end; !error && at != end; at.increment(error))
    if (is_ggml_library_name(at->path().filename().native())) found.push_back(at->path().string());
  std::ranges::sort(found);
  return found;
}

}  // namespace tessera::cli
