// Flags of the device map: devices, layers, single weights, and --fit. Names and defaults are the same as in llama.cpp.
// See docs/offload.md.
#pragma once

#include "tessera/cli/args.h"
#include "tessera/engine/fit.h"

namespace tessera::cli {

/// Adds --memory: the bound on all memory of a model and its session.
void add_memory_flag(FlagTable& table, FitOptions& fit);
void add_offload_flags(FlagTable& table, PlacementOptions& placement, FitOptions& fit);

/// Text for the end of a line of timings: how often experts were in their cache; "" without one.
std::string describe(const std::optional<StreamCounts>& counts);

}  // namespace tessera::cli
