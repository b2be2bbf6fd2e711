// Flags of the device map: devices, layers, single weights, and --fit. Names and defaults are the same as in llama.cpp.
// See docs/offload.md.
#pragma once

#include "tessera/cli/args.h"
#include "tessera/engine/fit.h"

namespace tessera::cli {

void add_offload_flags(FlagTable& table, PlacementOptions& placement, FitOptions& fit);

}  // namespace tessera::cli
