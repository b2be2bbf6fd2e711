// Adapts a plugin's device to the Device interface of backend.h; used by plugin.cpp.
#pragma once

#include <memory>

#include "tessera/backend/backend.h"
#include "tessera/backend/plugin_library.h"

namespace tessera {

inline constexpr uint32_t kMaxPluginDevices = 64;

/// Opens device `index` of a plugin, name:index. Errors: errors of the plugin; format (an invalid description).
Result<std::unique_ptr<Device>> open_plugin_device(std::shared_ptr<const PluginLibrary> library, uint32_t index);

}  // namespace tessera
