// A library of matrix products (BLAS, oneDNN) as a device: the classic accelerator without memory of its own. It works
// in the CPU's plain memory, next to the CPU's backend, which runs all else; the scheduler gives it large products.
#pragma once

#include <memory>
#include <string>

#include "tessera/backend/backend.h"

namespace tessera::blas {

/// The device "blas". `cpu` must outlive it; file as Library::open takes it.
/// Errors: not_found (no such library).
Result<std::unique_ptr<Device>> create_device(const Device& cpu, const std::string& file);

}  // namespace tessera::blas
