#include "tessera/vulkan/disk_cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tessera/base/file.h"
#include "tessera/base/hash.h"

namespace tessera::vulkan {

namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;

struct Header {
  std::array<char, 8> magic{'T', 'S', 'R', 'V', 'K', 'P', 'C', '1'};
  CacheKey key;
  uint64_t n_bytes = 0;
  uint64_t hash = 0;  // of the bytes

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 72 && std::is_trivially_copyable_v<Header>, "no padding between its members");

Header header_of(const CacheKey& key, std::span<const std::byte> data) {
  return {.key = key, .n_bytes = data.size(), .hash = Hash64().add(data).value()};
}

}  // namespace

std::string user_cache_folder() {
  // The XDG Base Directory Specification requires ignoring paths that are not absolute.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/')
    return std::string(cache) + "/tessera";
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    return std::string(home) + "/.cache/tessera";
  return {};
}

DiskCache::DiskCache(std::string folder, const CacheKey& key) : folder_(std::move(folder)), key_(key) {
  const uint64_t device = Hash64().add(std::as_bytes(std::span(key.device))).value();
  if (!folder_.empty()) path_ = fmt::format("{}/vulkan-{:016x}.bin", folder_, device);
}

std::vector<std::byte> DiskCache::load() const {
  std::error_code error;
  // Opening a named pipe would block until somebody writes to it.
  if (path_.empty() || !std::filesystem::is_regular_file(path_, error)) return {};
  const auto text = read_file(path_, kMaxFileBytes);
  if (!text || text->size() < sizeof(Header)) return {};
  Header header;
  std::memcpy(&header, text->data(), sizeof(Header));
  const auto data = std::as_bytes(std::span(*text)).subspan(sizeof(Header));
  if (header != header_of(key_, data)) return {};
  return {data.begin(), data.end()};
}

bool DiskCache::store(std::span<const std::byte> data) const {
  if (path_.empty() || data.size() > kMaxFileBytes - sizeof(Header)) return false;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  auto file = AtomicFile::create(path_);
  const Header header = header_of(key_, data);
  return file && file->write(std::as_bytes(std::span(&header, 1))) && file->write(data) && file->commit();
}

}  // namespace tessera::vulkan
