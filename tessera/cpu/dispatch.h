// Picks the kernels of an instruction set.
#pragma once

#include <string>

#include "tessera/base/result.h"
#include "tessera/cpu/kernels/kernels.h"

namespace tessera::cpu {

/// The kernels by name ("scalar", "avx2", "avx512"), or for "" those of isa::default_isa(). Errors: a name that is
/// unknown, not built, or not supported by this CPU; the message lists the usable ones.
Result<const Kernels*> select_kernels(const std::string& isa);

}  // namespace tessera::cpu
