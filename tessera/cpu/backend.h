// The CPU as a Device (backend/backend.h), with plain and packed memory. A backend has a thread pool of its own unless
// its options name one.
#pragma once

#include <memory>
#include <string>

#include "tessera/backend/backend.h"
#include "tessera/backend/host_allocator.h"

namespace tessera::cpu {

/// Creates the device "cpu". isa: the name of an instruction set, or "" for the best one. allocator: of the buffers in
/// plain pages; empty: the system. Errors: invalid_argument (an instruction set that is unknown or not supported by
/// this machine).
Result<std::unique_ptr<Device>> create_device(const std::string& isa, HostAllocator allocator = {});

}  // namespace tessera::cpu
