// A CUDA device for tests: a GPU if the machine has one, else the emulation of tests/cuda/emulator.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tessera/cuda/backend.h"
#include "tests/support/testing.h"

namespace tessera::testing {

namespace gpu_backend = cuda;
inline constexpr const char *kGpuName = "cuda:0", *kGpuMemoryVariable = "TESSERA_CUDA_MEMORY";
/// Largest error of products in the precision of f32, relative to sums in f64: three products of tf32 have 21 bits.
inline constexpr double kProductBound = 1e-11;

/// Whether the CPU emulates the device: the machine has no GPU, or TESSERA_TEST_EMULATED=1.
inline bool is_emulated() {
  static const bool has_gpu = [] {
    const char* emulated = std::getenv("TESSERA_TEST_EMULATED");
    if (emulated != nullptr && *emulated == '1') return false;
    return !cuda::find_devices({}).devices.empty();
  }();
  return !has_gpu;
}
inline cuda::Options cuda_options() {
  cuda::Options options;
  if (!is_emulated()) return options;
  static constexpr std::byte kNoCode[1] = {};
  options.library = cuda_emulator_path();
  options.images = {kNoCode};
  return options;
}

/// Devices of their own for a test, with a limit of their memory. The host cannot address it (maps_memory has no
/// effect).
inline std::vector<std::unique_ptr<Device>> new_gpu_devices(bool, std::shared_ptr<std::atomic<uint64_t>> max_bytes) {
  cuda::Options options = cuda_options();
  options.max_bytes = std::move(max_bytes);
  return std::move(cuda::find_devices(options).devices);
}

/// The devices, created once for all tests.
inline const Registry& gpu_registry(bool = true) {
  static const auto registry = [] {
    auto made = std::make_unique<Registry>();
    for (auto& device : new_gpu_devices(true, nullptr)) made->add(std::move(device));
    return made;
  }();
  return *registry;
}
inline const Device* gpu_device(bool = true) {
  const auto devices = gpu_registry().devices();
  return devices.empty() ? nullptr : devices.front().get();
}
inline const Device* gpu_device_of_64_lanes() { return gpu_device(); }

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_device() == nullptr)
      GTEST_SKIP() << "neither a GPU nor its emulation, which needs libboost-context1.81-dev";
  }
};

}  // namespace tessera::testing
