// q6_K in a panel: 256 columns of 16 rows, words as in the file; part 4h + g has the low (g < 2) or high nibbles of 32
// bytes of half h, and bits 2g of the plane of high bits of that half.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: 128 bytes of nibbles, 64 bytes of high bits, 16 signed bytes of scales, f16 d.
struct PanelQ6_K : FileBlock<DType::q6_k> {
  static constexpr int kMaxCode = 63, kOffset = 32;
  static constexpr int kScales = 2, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  RowWords<8> nibbles[4];  // index: 2h + g % 2
  RowWords<8> high_bits[2];
  int8_t scales[16][16];
  uint16_t d[16];

  U8x64 low(int part, int v) const { return code(part, v); }
  U8x64 high(int part, int v) const { return code(part, v + 4); }
  F32x16 scale(int part, int half) const { return mul(F32x16::load_f16(d), F32x16::load_i8(scales[2 * part + half])); }

  void set_row(int row, const uint8_t* file) {
    for (int i = 0; i < 4; ++i) nibbles[i].set(row, file + 32 * i);
    for (int half = 0; half < 2; ++half) high_bits[half].set(row, file + 128 + 32 * half);
    for (int i = 0; i < 16; ++i) memcpy(&scales[i][row], file + 192 + i, 1);
    d[row] = read_u16(file + 208);
  }
  void get_row(int row, uint8_t* file) const {
    for (int i = 0; i < 4; ++i) nibbles[i].get(row, file + 32 * i);
    for (int half = 0; half < 2; ++half) high_bits[half].get(row, file + 128 + 32 * half);
    for (int i = 0; i < 16; ++i) memcpy(file + 192 + i, &scales[i][row], 1);
    write_u16(file + 208, d[row]);
  }

 private:
  U8x64 code(int part, int v) const {
    const int half = part / 4, group = part % 4;
    const uint8_t* pair = nibbles[2 * half + group % 2][v];
    const U8x64 low4 = group < 2 ? low_nibbles(pair) : high_nibbles(pair);
    const U8x64 plane = U8x64::load(high_bits[half][v]);
    const U8x64 high2 = group < 2 ? shift_left(plane, 4 - 2 * group) : shift_right(plane, 2 * group - 4);
    return low4 | (high2 & 0x30);
  }
};
static_assert(sizeof(PanelQ6_K) == 16 * PanelQ6_K::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
