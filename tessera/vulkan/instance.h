// The connection to the Vulkan loader of this machine, shared by its devices.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "tessera/vulkan/api.h"

namespace tessera::vulkan {

struct Options {
  bool validates = false;                            // load the Khronos validation layer, if it is there
  std::function<void(std::string_view)> on_message;  // its warnings and errors; may be called by several threads
  uint64_t max_bytes = 0;   // > 0: what a device gives at most, for tests of running out of memory
  bool maps_memory = true;  // false: as if the host could not address any device's memory
};

class Instance {
 public:
  /// Errors: not_found (no loader, no driver), io.
  static Result<std::shared_ptr<const Instance>> create(const Options& options);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();

  const InstanceApi& api() const { return api_; }
  const Options& options() const { return options_; }
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
