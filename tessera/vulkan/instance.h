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
  bool validates = false;                            // load the Khronos validation layer if it is installed
  std::function<void(std::string_view)> on_message;  // its warnings and errors; may be called by several threads
  std::shared_ptr<std::atomic<uint64_t>> max_bytes;  // limit for each device; may change at any time; null: no limit
  std::optional<std::string> cache_folder;           // for compiled shaders; nullopt: the user's; "": no cache
  bool maps_memory = true;                           // false: behave as if the host could not address device memory
  bool has_matrices = true;        // use cooperative matrices for products if the device has them (cooperative.h)
  bool emulates_matrices = false;  // use their shaders on any device, without the matrices
  uint32_t n_lanes = 0;  // > 0: invocations per workgroup, to test the GPU code paths; a power of two, 8 to 128
};

/// TESSERA_VULKAN_MEMORY=BYTES limits each device's memory. TESSERA_VULKAN_COOPMAT=0 disables cooperative
/// matrices.
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
  /// Null if the loader does not provide it.
  PFN_vkVoidFunction cooperative_matrix_shapes() const;
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
