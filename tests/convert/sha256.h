// SHA-256 (FIPS 180-4), for comparisons with golden data.
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::testing {

/// The first 32 bits of the fraction of a root of a prime.
inline uint32_t root_bits(int prime, bool is_cube_root) {
  const long double root = is_cube_root ? cbrtl(prime) : sqrtl(prime);
  return static_cast<uint32_t>((root - floorl(root)) * 0x1p32L);
}

inline std::string sha256_of(std::span<const std::byte> bytes) {
  std::array<uint32_t, 64> factors{};
  std::array<uint32_t, 8> state{};
  size_t n_primes = 0;
  for (int number = 2; n_primes < factors.size(); ++number) {
    bool is_prime = true;
    for (int i = 2; i * i <= number; ++i) is_prime &= number % i != 0;
    if (!is_prime) continue;
    if (n_primes < state.size()) state[n_primes] = root_bits(number, false);
    factors[n_primes++] = root_bits(number, true);
  }
  std::string message(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  message += '\x80';
  message.append((120 - message.size() % 64) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) message += static_cast<char>(bytes.size() * 8 >> shift);
  for (size_t begin = 0; begin < message.size(); begin += 64) {
    std::array<uint32_t, 64> words{};
    for (size_t i = 0; i < 64; ++i) words[i / 4] = words[i / 4] << 8 | static_cast<uint8_t>(message[begin + i]);
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = words[i - 15], b = words[i - 2];
      words[i] = words[i - 16] + words[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
                 (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t sum =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + factors[i] + words[i];
      const uint32_t other = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + sum, d = c, c = b, b = a, a = sum + other;
    }
    const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
  }
  std::string hex;
  for (const uint32_t word : state) hex += fmt::format("{:08x}", word);
  return hex;
}

}  // namespace tessera::testing
