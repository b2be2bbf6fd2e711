// The choice of the kernels of an instruction set at run time.
#pragma once

#include <string>

#include "tessera/base/result.h"
#include "tessera/cpu/kernels/kernels.h"

namespace tessera::cpu {

/// The kernels of a set by name ("scalar", "avx2", "avxvnni", "avx512"); "": the kernels of isa::default_isa(). Errors:
/// unsupported (a name that is unknown, not built, or not supported by this CPU; the message lists the usable sets).
Result<const Kernels*> select_kernels(const std::string& isa);

}  // namespace tessera::cpu
