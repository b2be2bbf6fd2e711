// q2_K in a panel: 256 columns of 16 rows, words as in the file. Part 4h + j is at bits 2j of half h. Codes are
// the two-bit levels times the four-bit scales of 16 columns (0 to 45), which leaves one float scale.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: 16 bytes of scales and minima, 64 bytes of codes, f16 d, f16 dmin.
struct PanelQ2_K : FileBlock<DType::q2_k> {
  static constexpr int kMaxCode = 45, kOffset = 0;
  static constexpr int kMaxLevel = 3, kLevelOffset = 0;
  static constexpr int kScales = 1, kMins = 2;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  RowWords<8> halves[2];
  uint8_t scales[16][16];  // by 16 columns: scale in the low nibble, minimum in the high one
  uint16_t d[16], dmin[16];

  U8x64 levels(int part, int v) const { return shift_right(U8x64::load(halves[part / 4][v]), 2 * (part % 4)) & 3; }
  I32x16 factors(int part, int half) const { return load_u4(scales[2 * part + half], 0); }
  U8x64 low(int part, int v) const { return scaled(part, v, 0); }
  U8x64 high(int part, int v) const { return scaled(part, v + 4, 1); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(d); }
  F32x16 min(int part, int half) const {
    return mul(negate(F32x16::load_f16(dmin)), to_f32(load_u4(scales[2 * part + half], 4)));
  }

  void set_row(int row, const uint8_t* file) {
    for (int i = 0; i < 16; ++i) scales[i][row] = file[i];
    for (int half = 0; half < 2; ++half) halves[half].set(row, file + 16 + 32 * half);
    d[row] = read_u16(file + 80);
    dmin[row] = read_u16(file + 82);
  }
  void get_row(int row, uint8_t* file) const {
    for (int i = 0; i < 16; ++i) file[i] = scales[i][row];
    for (int half = 0; half < 2; ++half) halves[half].get(row, file + 16 + 32 * half);
    write_u16(file + 80, d[row]);
    write_u16(file + 82, dmin[row]);
  }

 private:
  U8x64 scaled(int part, int v, int half) const {
    return multiply16(levels(part, v), both16(factors(part, half)));  // no byte carries: 3 * 15
  }
};
static_assert(sizeof(PanelQ2_K) == 16 * PanelQ2_K::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
