// A 64-bit hash for fingerprints and checksums of our own files: FNV-1a over 8-byte words with a final mix. It detects
// accidental changes, not attacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera {

class Hash64 {
 public:
  Hash64& add(std::span<const std::byte> bytes);
  Hash64& add(std::string_view text);
  Hash64& add(uint64_t value);

  uint64_t value() const;

 private:
  uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace tessera
