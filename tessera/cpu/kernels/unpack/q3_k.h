// q3_K in a panel: 256 columns of 16 rows, words as in the file. Part 4h + j is at bits 2j of half h and bit 4h + j of
// the high plane. Codes are the levels (-4 to 3) times the six-bit scales (-32 to 31) of 16 columns. The products, -124
// to 128, are stored plus 127, which leaves one float scale. Scales are stored as bytes, so panels are 3.6 % larger
// than the file.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: 32 bytes of high bits, 64 bytes of low bits, 12 bytes of scales, f16 d.
struct PanelQ3_K : FileBlock<DType::q3_k> {
  static constexpr int kMaxCode = 255, kOffset = 127;
  static constexpr int kMaxLevel = 7, kLevelOffset = 4;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  RowWords<8> high_bits, halves[2];
  int8_t scales[16][16];  // by 16 columns, minus the format's offset of 32
  uint16_t d[16];

  U8x64 levels(int part, int v) const {
    const U8x64 low2 = shift_right(U8x64::load(halves[part / 4][v]), 2 * (part % 4)) & 3;
    return add_if_bit(low2, U8x64::load(high_bits[v]), part, 4);
  }
  I32x16 factors(int part, int half) const { return load_i8(scales[2 * part + half]); }
  U8x64 low(int part, int v) const { return scaled(part, v, 0); }
  U8x64 high(int part, int v) const { return scaled(part, v + 4, 1); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(d); }

  void set_row(int row, const uint8_t* file) {
    high_bits.set(row, file);
    for (int half = 0; half < 2; ++half) halves[half].set(row, file + 32 + 32 * half);
    const uint8_t* packed = file + 96;
    for (int i = 0; i < 16; ++i) {
      const int low4 = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4, high2 = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
      scales[i][row] = static_cast<int8_t>((low4 | high2 << 4) - 32);
    }
    d[row] = read_u16(file + 108);
  }
  void get_row(int row, uint8_t* file) const {
    high_bits.get(row, file);
    for (int half = 0; half < 2; ++half) halves[half].get(row, file + 32 + 32 * half);
    uint8_t packed[12] = {};
    for (int i = 0; i < 16; ++i) {
      const int scale = scales[i][row] + 32;
      packed[i % 8] = static_cast<uint8_t>(packed[i % 8] | (scale & 15) << (i < 8 ? 0 : 4));
      packed[8 + i % 4] = static_cast<uint8_t>(packed[8 + i % 4] | (scale >> 4) << (2 * (i / 4)));
    }
    memcpy(file + 96, packed, 12);
    write_u16(file + 108, d[row]);
  }

 private:
  /// (level - 4) * scale + 127 in every byte.
  U8x64 scaled(int part, int v, int half) const {
    const U8x64 level = add(levels(part, v), broadcast_u8(-4));
    return add(multiply_bytes(level, both16(factors(part, half))), broadcast_u8(127));
  }
};
static_assert(sizeof(PanelQ3_K) == 16 * (PanelQ3_K::kFileBytes + 4));

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
