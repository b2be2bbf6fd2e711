// q4_0 in a panel: 32 columns of 16 rows. Used by matmul_q4_0.cpp through matmul_int8.h.
//
// The file's byte j of a block holds element j (low nibble) and j+16 (high nibble), so its four-byte words
// are the lanes of the panel as they stand: packing moves words and changes no bit.
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/int8_dot.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct PanelQ4_0 {
  static constexpr int kMaxCode = 15;
  static constexpr int kOffset = 8;         // a weight is scale * (code - kOffset)
  static constexpr size_t kFileBytes = 18;  // of one row's block: f16 scale, 16 bytes of codes
  static constexpr bool kStreamed = true;   // tiles read it from memory

  uint8_t codes[4][64];  // lane (row) r of vector v: columns 4v to 4v+3, and 16 later in the high nibbles
  uint16_t scales[16];   // f16

  void code_pair(int v, U8x64& low, U8x64& high) const { nibbles(codes[v], low, high); }
  F32x16 scale() const { return F32x16::load_f16(scales); }

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
