// The files of a repository at one commit, as a hub's API lists them. All of an answer is checked here: the rest of the
// folder makes paths of its texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::hub {

struct RepositoryFile {
  std::string path;  // relative, with '/'
  uint64_t size = 0;
  std::string oid;  // 64 hexadecimal digits: SHA-256; 40: git's hash of a small file
};

struct Listing {
  std::string commit;                 // 40 hexadecimal digits
  std::vector<RepositoryFile> files;  // ordered by path
};

/// Checks a path of a repository: at most 1024 bytes of UTF-8; parts of at most 255 bytes that are no ".", "..", nor
/// empty; no control characters, no backslash. Errors: format.
Result<> check_repository_path(std::string_view path);

/// Reads the answer to /tree (one page of it) and appends its files. Errors: format; mismatch (two sizes of a file);
/// limit (2^18 files).
Result<> add_tree(std::string_view json, std::vector<RepositoryFile>& files);

/// Orders the files by path. Errors: format (two files of a path).
Result<> sort_files(std::vector<RepositoryFile>& files);

/// Finds the commit of a branch or tag in the answer to /refs. Errors: format; not_found.
Result<std::string> commit_of_ref(std::string_view json, std::string_view revision);

/// Returns files as the JSON that add_tree() reads.
std::string to_tree_json(const std::vector<RepositoryFile>& files);

/// Returns the file with this path, or null.
const RepositoryFile* find_file(const Listing& listing, std::string_view path);

}  // namespace tessera::hub
