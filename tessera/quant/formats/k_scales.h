// The eight pairs of 6-bit scales (ls, lm) that q4_k and q5_k store in 12 bytes. Pairs b = 0 to 3 are in bytes b and
// b + 4. The other pairs have their low 4 bits in byte b + 4, and their high 2 in the top bits of bytes b - 4 and b.
#pragma once

#include <stdint.h>

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline void pack_scales(const uint8_t* ls, const uint8_t* lm, uint8_t (&packed)[12]) {
  for (int b = 0; b < 4; ++b) {
    packed[b] = static_cast<uint8_t>(ls[b] | ls[b + 4] >> 4 << 6);
    packed[b + 4] = static_cast<uint8_t>(lm[b] | lm[b + 4] >> 4 << 6);
    packed[b + 8] = static_cast<uint8_t>((ls[b + 4] & 15) | (lm[b + 4] & 15) << 4);
  }
}

inline void unpack_scales(const uint8_t (&packed)[12], uint8_t (&ls)[8], uint8_t (&lm)[8]) {
  for (int b = 0; b < 4; ++b) {
    ls[b] = packed[b] & 63;
    lm[b] = packed[b + 4] & 63;
    ls[b + 4] = static_cast<uint8_t>((packed[b + 8] & 15) | packed[b] >> 6 << 4);
    lm[b + 4] = static_cast<uint8_t>(packed[b + 8] >> 4 | packed[b + 4] >> 6 << 4);
  }
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
