// Stores compiled shaders between runs of the program, in a file per device in the user's cache folder. The file's
// header identifies the device, the driver and the shaders. A mismatched or damaged entry is ignored. Nothing here
// reports an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::vulkan {

/// The inputs on which compiled shaders depend.
struct CacheKey {
  std::array<uint8_t, 16> device{}, driver{};
  uint64_t driver_version = 0;
  uint64_t shaders = 0;  // a hash of all of them

  bool operator==(const CacheKey&) const = default;
};

/// Returns $XDG_CACHE_HOME/tessera or ~/.cache/tessera, or "" if neither variable is set.
std::string user_cache_folder();

class DiskCache {
 public:
  /// folder: created on the first write; "" disables the cache.
  DiskCache(std::string folder, const CacheKey& key);

  const std::string& path() const { return path_; }
  /// Returns the data stored under the same key, or nothing.
  std::vector<std::byte> load() const;
  /// Replaces the stored data atomically. Returns false if it cannot be written.
  bool store(std::span<const std::byte> data) const;

 private:
  std::string folder_, path_;
  CacheKey key_;
};

}  // namespace tessera::vulkan
