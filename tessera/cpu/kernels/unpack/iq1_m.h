// iq1_m in a panel: 256 columns of 16 rows.
#pragma once

#include "tessera/cpu/kernels/unpack/iq1.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: 32 bytes of grid index, 16 of index bits 8-10 and signs of delta, 8 of scales.
struct PanelIQ1_M : FileBlock<DType::iq1_m> {
  static constexpr int kMaxCode = kIq1MaxCode, kOffset = kIq1Offset;
  static constexpr int kScales = 2, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::high;

  RowPoints<11> points[8];
  uint16_t negative[8][4];       // mask of rows with delta -1/8
  uint16_t scale_bits[8][2][3];  // mask of rows with bit i of the scale of a half set
  uint16_t d[16];

  [[gnu::always_inline]] void codes(int part, uint8_t (&to)[8][64]) const {
    const auto bits = [this, part](int v) { return nibbles_of_bits(negative[part][v / 2]); };
    codes_of_eights(kIq1Grid, points[part], kIq1Codes, bits, to);
  }
  /// d * (2s + 1) / 8
  F32x16 scale(int part, int half) const {
    I32x16 steps = I32x16::broadcast(1);
    for (int i = 0; i < 3; ++i) steps = add_where(steps, scale_bits[part][half][i], 2 << i);
    return mul(F32x16::load_f16(d), mul(to_f32(steps), F32x16::broadcast(0.125f)));
  }

  void set_row(int row, const uint8_t* file) {
    uint32_t scale_of_block = 0;  // from the top nibbles of the four words of scales
    for (int i = 0; i < 4; ++i) scale_of_block |= (read_u16(file + 48 + 2 * i) & 0xf000u) >> (12 - 4 * i);
    d[row] = static_cast<uint16_t>(scale_of_block);
    for (int part = 0; part < 8; ++part) {
      for (int group = 0; group < 4; ++group) {
        const uint32_t nibble = static_cast<uint32_t>(file[32 + 2 * part + group / 2] >> (4 * (group % 2)) & 15);
        points[part].set(row, group, file[4 * part + group] | (nibble & 7) << 8);
        set_bit(negative[part][group], row, nibble >> 3);
      }
      for (int half = 0; half < 2; ++half) {
        const uint32_t steps = read_u16(file + 48 + 2 * (part / 2)) >> (6 * (part % 2) + 3 * half) & 7u;
        for (int i = 0; i < 3; ++i) set_bit(scale_bits[part][half][i], row, steps >> i & 1);
      }
    }
  }
  void get_row(int row, uint8_t* file) const {
    uint32_t words[4];
    for (int i = 0; i < 4; ++i) words[i] = static_cast<uint32_t>(d[row] >> (4 * i) & 15) << 12;
    for (int part = 0; part < 8; ++part) {
      uint32_t nibbles = 0;
      for (int group = 0; group < 4; ++group) {
        const uint32_t point = points[part].get(row, group);
        file[4 * part + group] = static_cast<uint8_t>(point);
        nibbles |= (point >> 8 | get_bit(negative[part][group], row) << 3) << (4 * group);
      }
      write_u16(file + 32 + 2 * part, nibbles);
      for (int half = 0; half < 2; ++half)
        for (int i = 0; i < 3; ++i)
          words[part / 2] |= get_bit(scale_bits[part][half][i], row) << (6 * (part % 2) + 3 * half + i);
    }
    for (int i = 0; i < 4; ++i) write_u16(file + 48 + 2 * i, words[i]);
  }
};
static_assert(sizeof(PanelIQ1_M) == 16 * PanelIQ1_M::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
