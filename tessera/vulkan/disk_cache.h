// Compiled shaders between runs of the program: a file per device in the user's cache folder. Its header says whose it
// is and what it was made from; what does not match, or is damaged, is as good as absent. Nothing here is an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::vulkan {

/// What compiled shaders depend on.
struct CacheKey {
  std::array<uint8_t, 16> device{}, driver{};
  uint64_t driver_version = 0;
  uint64_t shaders = 0;  // a hash of all of them

  bool operator==(const CacheKey&) const = default;
};

/// $XDG_CACHE_HOME/tessera or ~/.cache/tessera; empty where neither is set.
std::string user_cache_folder();

class DiskCache {
 public:
  /// A folder that is made when something is written; empty: nothing is kept.
  DiskCache(std::string folder, const CacheKey& key);

  const std::string& path() const { return path_; }
  /// What was stored under the same key; empty if nothing.
  std::vector<std::byte> load() const;
  /// Replaces what is there at once; false where it cannot be written.
  bool store(std::span<const std::byte> data) const;

 private:
  std::string folder_, path_;
  CacheKey key_;
};

}  // namespace tessera::vulkan
