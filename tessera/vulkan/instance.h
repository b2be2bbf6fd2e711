// The connection to the Vulkan loader of this machine, shared by its devices.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/vulkan/api.h"

namespace tessera::vulkan {

struct Options {
  bool validates = false;                            // load the Khronos validation layer, if it is there
  std::function<void(std::string_view)> on_message;  // its warnings and errors; may be called by several threads
  std::shared_ptr<std::atomic<uint64_t>> max_bytes;  // of each device's memory; may change at any time; null: all
  std::optional<std::string> cache_folder;           // of compiled shaders; none: the user's; "": nothing is kept
  bool maps_memory = true;                           // false: as if the host could not address any device's memory
  bool cooperates = false;  // products on cooperative matrices, where a device has them (cooperative.h)
  uint32_t n_lanes = 0;     // > 0: invocations of a workgroup, to test what GPUs run; a power of two, 8 to 128
};

/// TESSERA_VULKAN_MEMORY=BYTES limits what a device gives; TESSERA_VULKAN_COOPMAT=1 asks for cooperative matrices.
/// Errors: invalid_argument.
Result<Options> options_from_environment();

class Instance {
 public:
  /// Errors: not_found (no loader, no driver), io.
  static Result<std::shared_ptr<const Instance>> create(const Options& options);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();

  const InstanceApi& api() const { return api_; }
  const Options& options() const { return options_; }
  /// Null where the loader does not know it.
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV cooperative_matrices() const;
  /// Whether the validation layer is loaded.
  bool validates() const { return messenger_ != VK_NULL_HANDLE; }
  Result<std::vector<VkPhysicalDevice>> physical_devices() const;

 private:
  Instance() = default;
  Result<> open_loader();
  Result<> create_instance();
  Result<> listen();

  Options options_;
  void* library_ = nullptr;
  PFN_vkGetInstanceProcAddr get_address_ = nullptr;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  InstanceApi api_;
};

}  // namespace tessera::vulkan
