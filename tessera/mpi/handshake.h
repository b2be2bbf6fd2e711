// The comparison of ranks before they work together. Operations, parameters and types travel by name and number, so
// ranks of different builds are refused here, with a line that names both hosts, and not in the middle of a run.
#pragma once

#include <string>

#include "tessera/mpi/message.h"

namespace tessera::mpi {

/// A hash of all operations with the names of their parameters, and of all types.
uint64_t hash_of_tables();

/// The identity of this process. program: its version.
Identity own_identity(std::string program);

/// Errors: mismatch.
Result<> require_same(const Identity& here, const Identity& there);

}  // namespace tessera::mpi
