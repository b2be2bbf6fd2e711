#include "tessera/cli/chat_words.h"

#include <glob.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tessera/base/file.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {
namespace {

constexpr uint64_t kMaxTextFileBytes = uint64_t{1} << 20;

// The paths that match, or the error of glob().
struct Matches {
  glob_t found{};
  int status = 0;
  Matches(const std::string& pattern, int flags) : status(::glob(pattern.c_str(), flags, nullptr, &found)) {}
  ~Matches() { ::globfree(&found); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  std::vector<std::string> paths() const {
    return status == 0 ? std::vector<std::string>(found.gl_pathv, found.gl_pathv + found.gl_pathc)
                       : std::vector<std::string>();
  }
};

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool is_open = false;  // words.back() can grow
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_blank = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && is_blank) {
      is_open = false;
      continue;
    }
    if (!is_open) words.emplace_back();
    is_open = true;
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return fail(ErrorCode::invalid_argument, "a quote {} has no end", quote);
  return words;
}

Result<std::vector<std::string>> matching_files(const std::string& pattern) {
  const Matches matches(pattern, GLOB_TILDE);
  if (matches.status == 0) return matches.paths();
  if (matches.status == GLOB_NOMATCH) return fail(ErrorCode::not_found, "{}: no such file", text::quote_text(pattern));
  return fail(ErrorCode::io, "{}: cannot search for files", text::quote_text(pattern));
}

std::vector<std::string> paths_with_prefix(std::string_view prefix, size_t n_max) {
  std::string pattern;
  for (const char c : prefix) {
    if (std::strchr("*?[\\", c) != nullptr) pattern += '\\';
    pattern += c;
  }
  std::vector<std::string> paths = Matches(pattern + "*", GLOB_TILDE | GLOB_MARK).paths();
  paths.resize(std::min(paths.size(), n_max));
  return paths;
}

Result<std::string> read_text_file(const std::string& path) {
  TESSERA_ASSIGN(std::string text, read_file(path, kMaxTextFileBytes));
  if (text.find('\0') != std::string::npos || !text::is_valid_utf8(text))
    return fail(ErrorCode::format, "{}: not a text file", path);
  return text;
}

}  // namespace tessera::cli
