// Words of a chat's command line, and files that they name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

/// Splits a text at blanks. Quotes ('...', "...") hold blanks in a word, and a backslash keeps the next character.
/// Errors: invalid_argument (a quote without end).
Result<std::vector<std::string>> split_words(std::string_view text);

/// Returns the files that a word names: with *, ? or [...] all that match, in order; a leading ~ is the home directory.
/// Errors: not_found (nothing matches); io.
Result<std::vector<std::string>> matching_files(const std::string& pattern);

/// Returns the paths that begin with a text, at most `n_max` of them; a directory ends with '/'.
std::vector<std::string> paths_with_prefix(std::string_view prefix, size_t n_max);

/// Reads a text file of at most 1 MiB. Errors: io; limit; format (not UTF-8, or with zero bytes).
Result<std::string> read_text_file(const std::string& path);

}  // namespace tessera::cli
