// A library of matrix products (BLAS, oneDNN) as a device. It has no memory of its own and works in the default memory
// of the CPU device. The scheduler assigns large products to it, and all other nodes to the CPU's backend.
#pragma once

#include <memory>
#include <string>

#include "tessera/backend/backend.h"

namespace tessera::blas {

/// Creates the device "blas". `cpu` must outlive it; file as in Library::open.
/// Errors: not_found (no such library).
Result<std::unique_ptr<Device>> create_device(const Device& cpu, const std::string& file);

}  // namespace tessera::blas
