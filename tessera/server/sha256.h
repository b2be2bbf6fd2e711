// SHA-256 digests.
#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::server {

using Digest = std::array<std::byte, 32>;

/// Neither fails nor allocates. OpenSSL's newer functions (EVP) allocate, and version 3.0 crashes in them if an
/// allocation fails while they prepare themselves.
class Sha256 {
 public:
  Sha256();

  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(uint64_t number);
  /// Adds the length as well, so that neighbours do not run together.
  Sha256& add_text(std::string_view text);
  Digest finish();

 private:
  SHA256_CTX context_{};
};

std::string hex_text(std::span<const std::byte> bytes);

}  // namespace tessera::server
