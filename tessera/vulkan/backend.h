// The GPUs of this machine, and all other devices with a Vulkan 1.2 driver.
#pragma once

#include <memory>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/vulkan/instance.h"

namespace tessera::vulkan {

/// Returns the devices "vulkan:0", "vulkan:1", ... that can run graphs, GPUs first. The list is empty if there is no
/// loader, no driver, or no device with the required features. Slow: it creates a logical device for each.
std::vector<std::unique_ptr<Device>> find_devices(const Options& options);

}  // namespace tessera::vulkan
