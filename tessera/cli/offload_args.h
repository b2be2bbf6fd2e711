// The flags that say where a model lies: devices, layers, single weights, and what is chosen so that it fits. Names and
// defaults are those that llama.cpp's users know; docs/offload.md.
#pragma once

#include "tessera/cli/args.h"
#include "tessera/engine/fit.h"

namespace tessera::cli {

void add_offload_flags(FlagTable& table, PlacementOptions& placement, FitOptions& fit);

}  // namespace tessera::cli
