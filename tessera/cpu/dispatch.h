// Picks the kernels of the best instruction set that this CPU and its system support.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/cpu/kernels/kernels.h"

namespace tessera::cpu {

/// The kernels by name ("scalar", "avx2", "avx512"), or the best for "". Errors: a name that is unknown,
/// not built, or not supported by this CPU; the message lists the usable ones.
Result<const Kernels*> select_kernels(const std::string& isa);

/// The instruction sets usable here, best last.
std::vector<std::string> usable_isas();

}  // namespace tessera::cpu
