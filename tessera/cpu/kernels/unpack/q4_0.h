// q4_0 in a panel: 32 columns of 16 rows. Used by matmul_q4_0.cpp through matmul_int8.h.
//
// Byte j of a block of the file holds elements j (low nibble) and j+16 (high nibble). So its four-byte words are the
// lanes of the panel, and packing only moves words.
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 scale, 16 bytes of codes.
struct PanelQ4_0 : FileBlock<DType::q4_0> {
  static constexpr int kMaxCode = 15, kOffset = 8;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::low;

  uint8_t codes[4][64];  // lane (row) r of vector v: columns 4v to 4v+3, and 16 later in the high nibbles
  uint16_t scales[16];   // f16

  U8x64 low(int /*part*/, int v) const { return low_nibbles(codes[v]); }
  U8x64 high(int /*part*/, int v) const { return high_nibbles(codes[v]); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }

  void set_row(int row, const uint8_t* file) {
    memcpy(&scales[row], file, 2);
    for (int v = 0; v < 4; ++v) memcpy(&codes[v][4 * row], file + 2 + 4 * v, 4);
  }
  void get_row(int row, uint8_t* file) const {
    memcpy(file, &scales[row], 2);
    for (int v = 0; v < 4; ++v) memcpy(file + 2 + 4 * v, &codes[v][4 * row], 4);
  }
};
static_assert(sizeof(PanelQ4_0) == 16 * PanelQ4_0::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
