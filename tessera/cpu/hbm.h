// High-bandwidth memory through memkind; without it (TESSERA_MEMKIND) every call says so. Called by memory.cpp.
#pragma once

#include <cstddef>

#include "tessera/base/result.h"

namespace tessera::cpu {

/// Whether there is such memory. Errors: unsupported (this build has no memkind, or this machine has no such memory).
Result<> want_hbm();

/// Zeroed memory on a page, given back by free_hbm(). Errors: unsupported, out_of_memory.
Result<std::byte*> allocate_hbm(size_t bytes);
void free_hbm(std::byte* memory);

}  // namespace tessera::cpu
