// The composition root: the only place that names concrete backends.
#pragma once

#include <memory>
#include <string>

#include "tessera/backend/backend.h"

namespace tessera {

/// A registry of the devices of this machine. isa: the CPU's instruction set by name, or "" for the best.
/// Errors: invalid_argument (isa).
Result<std::unique_ptr<Registry>> create_registry(const std::string& isa);

}  // namespace tessera
