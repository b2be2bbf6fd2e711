// q8_0 in a panel: 32 columns of 16 rows. Used by matmul_q8_0.cpp through matmul_int8.h.
//
// Codes are stored with the offset already applied (signed byte ^ 0x80), because the dot product needs unsigned
// weights.
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 scale, 32 signed bytes.
struct PanelQ8_0 : FileBlock<DType::q8_0> {
  static constexpr int kMaxCode = 255, kOffset = 128;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::low;

  uint8_t codes[8][64];  // lane (row) r of vector v: columns 4v to 4v+3
  uint16_t scales[16];   // f16

  U8x64 low(int /*part*/, int v) const { return U8x64::load(codes[v]); }
  U8x64 high(int /*part*/, int v) const { return U8x64::load(codes[v + 4]); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }

  void set_row(int row, const uint8_t* file) {
    memcpy(&scales[row], file, 2);
    for (int v = 0; v < 8; ++v) copy_flipped(&codes[v][4 * row], file + 2 + 4 * v);
  }
  void get_row(int row, uint8_t* file) const {
    memcpy(file, &scales[row], 2);
    for (int v = 0; v < 8; ++v) copy_flipped(file + 2 + 4 * v, &codes[v][4 * row]);
  }

 private:
  static void copy_flipped(uint8_t* to, const uint8_t* from) {
    uint32_t word;
    memcpy(&word, from, 4);
    word ^= 0x80808080u;
    memcpy(to, &word, 4);
  }
};
static_assert(sizeof(PanelQ8_0) == 16 * PanelQ8_0::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
