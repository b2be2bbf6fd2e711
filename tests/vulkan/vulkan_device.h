// A Vulkan device for tests, with the validation layer if it is installed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/vulkan/backend.h"

namespace tessera::testing {

/// The messages of the validation layer. No test may cause any.
class ValidationMessages {
 public:
  void add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    all_.emplace_back(text);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(all_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};
inline ValidationMessages& validation_messages() {
  static ValidationMessages messages;
  return messages;
}

inline vulkan::Options validated_options() {
  validation_messages();  // outlives the devices that report to it
  vulkan::Options options;
  options.validates = true;
  options.on_message = [](std::string_view text) { validation_messages().add(text); };
  options.cache_folder = "";
  return options;
}

/// The devices, created once for all tests because compiling shaders is slow. maps_memory false: as on most GPUs, the
/// host cannot address the memory.
inline const Registry& gpu_registry(bool maps_memory = true) {
  static const auto make = [](bool maps) {
    vulkan::Options options = validated_options();
    options.maps_memory = maps;
    auto registry = std::make_unique<Registry>();
    for (auto& device : vulkan::find_devices(options)) registry->add(std::move(device));
    return registry;
  };
  static const auto mapped = make(true);
  if (maps_memory) return *mapped;
  static const auto unmapped = make(false);
  return *unmapped;
}

/// The first device; null if there is none.
inline const Device* gpu_device(bool maps_memory = true) {
  const auto devices = gpu_registry(maps_memory).devices();
  return devices.empty() ? nullptr : devices.front().get();
}

/// The first device, with workgroups of 64 invocations as on GPUs.
inline const Device* gpu_device_of_64_lanes() {
  static const std::vector<std::unique_ptr<Device>> devices = [] {
    vulkan::Options options = validated_options();
    options.n_lanes = 64;
    return vulkan::find_devices(options);
  }();
  return devices.empty() ? nullptr : devices.front().get();
}

/// The first device, which emulates cooperative matrices unless it has them.
inline const Device* gpu_device_with_matrices() {
  static const std::vector<std::unique_ptr<Device>> devices = [] {
    auto found = vulkan::find_devices(validated_options());
    const auto has_matrices = [](const std::unique_ptr<Device>& device) {
      const auto properties = device->properties();
      return std::ranges::find(properties, std::pair<std::string, std::string>("cooperative matrices", "on")) !=
             properties.end();
    };
    if (!found.empty() && has_matrices(found.front())) return found;
    vulkan::Options options = validated_options();
    options.emulates_matrices = true;
    return vulkan::find_devices(options);
  }();
  return devices.empty() ? nullptr : devices.front().get();
}

namespace gpu_backend = vulkan;
inline constexpr const char *kGpuName = "vulkan:0", *kGpuMemoryVariable = "TESSERA_VULKAN_MEMORY";

/// Devices of their own for a test, with a limit of their memory.
inline std::vector<std::unique_ptr<Device>> new_gpu_devices(bool maps_memory,
                                                            std::shared_ptr<std::atomic<uint64_t>> max_bytes) {
  vulkan::Options options = validated_options();
  options.maps_memory = maps_memory;
  options.max_bytes = std::move(max_bytes);
  return vulkan::find_devices(options);
}
/// Whether the CPU emulates the device's kernels, as tests/cuda does.
inline bool is_emulated() { return false; }
/// Largest error of products in the precision of f32, relative to sums in f64.
inline constexpr double kProductBound = 1e-12;

/// Whether Mesa's driver for processors is installed, so that there must be a device.
inline bool has_software_driver() { return std::filesystem::exists("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"); }

/// Skips tests without a device and without a driver. Fails a test that caused messages of the validation layer.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(gpu_device() != nullptr || !has_software_driver()) << "no device with the installed driver";
    if (gpu_device() == nullptr) GTEST_SKIP() << "no Vulkan device";
  }
  void TearDown() override {
    for (const std::string& message : validation_messages().take()) ADD_FAILURE() << message;
  }
};

}  // namespace tessera::testing
