// The GPUs of this machine, and whatever else has a Vulkan 1.2 driver.
#pragma once

#include <memory>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/vulkan/instance.h"

namespace tessera::vulkan {

/// The devices "vulkan:0", "vulkan:1", ... that can run graphs, GPUs first; none where there is no loader, no driver,
/// or only devices that lack what is needed. A logical device is made for each: this takes a while.
std::vector<std::unique_ptr<Device>> find_devices(const Options& options);

}  // namespace tessera::vulkan
