// The composition root: the only code that names concrete backends.
#pragma once

#include <memory>
#include <string>

#include "tessera/backend/backend.h"

namespace tessera {

/// Creates a registry of the devices of this machine. isa: name of the CPU's instruction set, or "" for the best one.
/// Errors: invalid_argument (isa).
Result<std::unique_ptr<Registry>> create_registry(const std::string& isa);

}  // namespace tessera
