// A plugin's device behind the contract of backend.h.
#pragma once

#include <memory>

#include "tessera/backend/backend.h"
#include "tessera/backend/plugin_library.h"

namespace tessera {

inline constexpr uint32_t kMaxPluginDevices = 64;

/// Device `index` of a plugin, name:index. Errors: what the plugin says; format (a description that cannot be true).
Result<std::unique_ptr<Device>> open_plugin_device(std::shared_ptr<const PluginLibrary> library, uint32_t index);

}  // namespace tessera
