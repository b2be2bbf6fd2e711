#include "tessera/server/sha256.h"

namespace tessera::server {

// These functions are older than EVP, and deprecated since OpenSSL 3.0.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

Sha256::Sha256() { SHA256_Init(&context_); }

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  SHA256_Update(&context_, bytes.data(), bytes.size());
  return *this;
}

Digest Sha256::finish() {
  Digest digest{};
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context_);
  return digest;
}

#pragma GCC diagnostic pop

Sha256& Sha256::add(uint64_t number) { return add(std::as_bytes(std::span(&number, 1))); }

Sha256& Sha256::add_text(std::string_view text) {
  return add(uint64_t{text.size()}).add(std::as_bytes(std::span(text)));
}

std::string hex_text(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<size_t>(byte >> 4)];
    text += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return text;
}

}  // namespace tessera::server
