// The entries of a folder. Unlike the iterators of std::filesystem, this reports a lack of memory as an exception of
// the caller; they end the process.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/result.h"

namespace tessera {

/// The names of all entries but "." and "..", in no order. Errors: not_found (no such folder); io (it cannot be read);
/// limit (more than `most` entries).
Result<std::vector<std::string>> names_in_folder(const std::string& path, size_t most);

}  // namespace tessera
