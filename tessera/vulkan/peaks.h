// Measures the peak rates of a device with short loops.
#pragma once

#include "tessera/backend/backend.h"
#include "tessera/vulkan/pipelines.h"
#include "tessera/vulkan/transfers.h"

namespace tessera::vulkan {

/// This backend multiplies weights of all formats as floats, so the peak of float products bounds quantized ones too.
/// Errors: out_of_memory, io.
Result<DevicePeaks> measure_peaks(const Context& context, Pipelines& pipelines, Transfers& transfers);

}  // namespace tessera::vulkan
