// The CPU behind the backend contract: a device with plain and packed memory, and backends with a thread pool each.
#pragma once

#include <memory>
#include <string>

#include "tessera/backend/backend.h"

namespace tessera::cpu {

/// The CPU as a device. isa: "" for the best instruction set, or one by name. Errors: invalid_argument (an
/// instruction set that is unknown or not supported here).
Result<std::unique_ptr<Device>> create_device(const std::string& isa);

}  // namespace tessera::cpu
