// High-bandwidth memory through memkind, used by memory.cpp. In builds without memkind (TESSERA_MEMKIND) every call
// fails with a message.
#pragma once

#include <cstddef>

#include "tessera/base/result.h"

namespace tessera::cpu {

/// Checks that such memory exists. Errors: unsupported (the build has no memkind, or the machine has no such memory).
Result<> require_hbm();

/// Allocates zeroed, page-aligned memory, freed by free_hbm(). Errors: unsupported, out_of_memory.
Result<std::byte*> allocate_hbm(size_t bytes);
void free_hbm(std::byte* memory);

}  // namespace tessera::cpu
