// The hash of keys, and its secret.
#include "tessera/json/key_table.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>

namespace tessera {
namespace {

constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
constexpr size_t kChunkBytes = 7;  // below the prime

uint64_t draw_secret() {
  uint64_t secret = 0;
  if (getentropy(&secret, sizeof(secret)) != 0)
    secret = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) * 0x9E3779B97F4A7C15u;
  return secret % (kPrime - 2) + 2;
}

uint64_t times(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  const uint64_t sum = (static_cast<uint64_t>(product) & kPrime) + static_cast<uint64_t>(product >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

}  // namespace

uint64_t secret_hash(std::string_view text) {
  static const uint64_t secret = draw_secret();
  uint64_t hash = text.size() + 1;
  while (!text.empty()) {
    const size_t n_bytes = text.size() < kChunkBytes ? text.size() : kChunkBytes;
    uint64_t chunk = 0;
    std::memcpy(&chunk, text.data(), n_bytes);
    hash = times(hash, secret) + chunk;
    if (hash >= kPrime) hash -= kPrime;
    text.remove_prefix(n_bytes);
  }
  return times(hash, secret);
}

KeyTable::KeyTable(size_t n_keys) : mask_(std::bit_ceil(2 * n_keys + 2) - 1), places_(mask_ + 1, kFree) {}

}  // namespace tessera
