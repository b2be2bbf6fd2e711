// Memory of mapped files that were read.
#pragma once

#include <cstdint>

#include "tessera/base/file.h"

namespace tessera::convert {

/// Releases the memory of bytes [offset, offset + n) that were read. Reading them again is slower. The system maps
/// pages around those that are read, so these are released too.
void forget_bytes(const MappedFile& map, uint64_t offset, uint64_t n);

}  // namespace tessera::convert
