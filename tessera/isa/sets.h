// The instruction sets that kernels and formats are compiled for (sets.def), and the choice of one: cpu/dispatch and
// quant/formats take their tables of the set by its number.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::isa {

/// The names of the sets that this build has and this CPU runs, best last.
std::vector<std::string> usable_isas();

/// The row of a usable set in sets.def. Errors: unsupported; the message lists the usable ones.
Result<size_t> find_isa(std::string_view name);

/// The row of the set that TESSERA_ISA names, or of the best if it names none that is usable. Always the same.
size_t default_isa();

}  // namespace tessera::isa
