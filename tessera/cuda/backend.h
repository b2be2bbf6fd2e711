// The NVIDIA GPUs of this machine, by CUDA's driver.
#pragma once

#include <memory>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/cuda/context.h"

namespace tessera::cuda {

/// Returns the devices "cuda:0", "cuda:1", ... that can run graphs. The list is empty without a driver or a device; the
/// notes name devices that cannot be used. Slow: it creates a context for each.
FoundDevices find_devices(const Options& options);

}  // namespace tessera::cuda
