// Peak rates of a device.
#pragma once

#include "tessera/backend/backend.h"
#include "tessera/cuda/context.h"

namespace tessera::cuda {

Result<DevicePeaks> measure_peaks(const Context& context);

}  // namespace tessera::cuda
