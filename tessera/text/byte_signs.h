// Code points that represent bytes in GPT-2's byte-level vocabularies. Printable bytes of Latin-1 represent themselves;
// the others, in order, are U+0100 and up.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace tessera::text {

inline constexpr uint32_t kFirstShiftedSign = 0x100;
inline constexpr uint32_t kEndOfSigns = 0x100 + 68;

constexpr bool is_its_own_sign(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct ByteSigns {
  std::array<uint32_t, 256> sign{};         // by byte: a code point
  std::array<int16_t, kEndOfSigns> byte{};  // by code point; -1: represents no byte
};

constexpr ByteSigns make_byte_signs() {
  ByteSigns signs;
  signs.byte.fill(-1);
  uint32_t shifted = kFirstShiftedSign;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    signs.sign[byte] = is_its_own_sign(byte) ? byte : shifted++;
    signs.byte[signs.sign[byte]] = static_cast<int16_t>(byte);
  }
  return signs;
}
inline constexpr ByteSigns kByteSigns = make_byte_signs();

constexpr std::optional<uint8_t> byte_of_sign(uint32_t code_point) {
  if (code_point >= kEndOfSigns || kByteSigns.byte[code_point] < 0) return std::nullopt;
  return static_cast<uint8_t>(kByteSigns.byte[code_point]);
}

}  // namespace tessera::text
