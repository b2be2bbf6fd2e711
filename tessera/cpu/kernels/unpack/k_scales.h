// Converts the six-bit scales and minima of q4_K and q5_K, eight of each in twelve bytes of the file, to bytes.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct KScales {
  uint8_t scales[8][16], mins[8][16];

  F32x16 scale(int part) const { return to_f32(load_u8(scales[part])); }
  F32x16 min(int part) const { return to_f32(load_u8(mins[part])); }

  void set(int row, const uint8_t* file) {
    for (int i = 0; i < 4; ++i) {
      scales[i][row] = file[i] & 63;
      mins[i][row] = file[i + 4] & 63;
      scales[i + 4][row] = static_cast<uint8_t>((file[i + 8] & 15) | file[i] >> 6 << 4);
      mins[i + 4][row] = static_cast<uint8_t>(file[i + 8] >> 4 | file[i + 4] >> 6 << 4);
    }
  }
  void get(int row, uint8_t* file) const {
    for (int i = 0; i < 4; ++i) {
      file[i] = static_cast<uint8_t>(scales[i][row] | scales[i + 4][row] >> 4 << 6);
      file[i + 4] = static_cast<uint8_t>(mins[i][row] | mins[i + 4][row] >> 4 << 6);
      file[i + 8] = static_cast<uint8_t>((scales[i + 4][row] & 15) | mins[i + 4][row] << 4);
    }
  }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
