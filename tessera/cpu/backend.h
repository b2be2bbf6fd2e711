// The CPU as a Device (backend/backend.h), with plain and packed memory. Each of its backends has its own thread pool.
#pragma once

#include <memory>
#include <string>

#include "tessera/backend/backend.h"

namespace tessera::cpu {

/// Creates the device "cpu". isa: the name of an instruction set, or "" for the best one. Errors: invalid_argument (an
/// instruction set that is unknown or not supported by this machine).
Result<std::unique_ptr<Device>> create_device(const std::string& isa);

}  // namespace tessera::cpu
