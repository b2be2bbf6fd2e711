#include "tessera/base/hash.h"

#include <cstring>

namespace tessera {

namespace {
constexpr uint64_t kPrime = 0x100000001b3u;
}

Hash64& Hash64::add(uint64_t value) {
  // Multiplication propagates low bits upwards only. The rotation moves high bits back down for the next word.
  state_ = (state_ ^ value) * kPrime;
  state_ = (state_ << 29) | (state_ >> 35);
  return *this;
}

Hash64& Hash64::add(std::span<const std::byte> bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    add(word);
  }
  uint64_t tail = 0;
  if (i < bytes.size()) std::memcpy(&tail, bytes.data() + i, bytes.size() - i);
  return add(tail).add(static_cast<uint64_t>(bytes.size()));
}

Hash64& Hash64::add(std::string_view text) { return add(std::as_bytes(std::span(text.data(), text.size()))); }

uint64_t Hash64::value() const {
  uint64_t h = state_;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  return h ^ (h >> 32);
}

}  // namespace tessera
