// The instruction sets for which kernels and formats are compiled (sets.def), and the choice of one. cpu/dispatch and
// quant/formats index their tables by the row of the set.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::isa {

/// The names of the sets in this build that this CPU can run, fastest last.
std::vector<std::string> usable_isas();

/// The row of a usable set in sets.def. Errors: unsupported (the message lists the usable sets).
Result<size_t> find_isa(std::string_view name);

/// The row of the set in the environment variable TESSERA_ISA, or of the fastest usable set if the variable names no
/// usable set. The result never changes during a process.
size_t default_isa();

}  // namespace tessera::isa
