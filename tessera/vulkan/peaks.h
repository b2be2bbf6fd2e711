// Short loops that show what the device reaches at best.
#pragma once

#include "tessera/backend/backend.h"
#include "tessera/vulkan/pipelines.h"
#include "tessera/vulkan/transfers.h"

namespace tessera::vulkan {

/// Weights of any format are multiplied as floats here, so the bound of quantized ones is that of floats too.
/// Errors: out_of_memory, io.
Result<DevicePeaks> measure_peaks(const Context& context, Pipelines& pipelines, Transfers& transfers);

}  // namespace tessera::vulkan
