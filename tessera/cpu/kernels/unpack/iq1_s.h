// iq1_s in a panel: 256 columns of 16 rows.
#pragma once

#include "tessera/cpu/kernels/unpack/iq1.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 d, 32 bytes of grid index, 8 u16: index bits 8-10, 3-bit scale, sign of delta.
struct PanelIQ1_S : FileBlock<DType::iq1_s> {
  static constexpr int kMaxCode = kIq1MaxCode, kOffset = kIq1Offset;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::high;

  RowPoints<11> points[8];
  uint16_t negative[8];       // mask of rows with delta -1/8
  uint16_t scale_bits[8][3];  // mask of rows with bit i of the scale set
  uint16_t d[16];

  [[gnu::always_inline]] void codes(int part, uint8_t (&to)[8][64]) const {
    const uint64_t bits = nibbles_of_bits(negative[part]);
    codes_of_eights(
        kIq1Grid, points[part], kIq1Codes, [bits](int) { return bits; }, to);
  }
  /// d * (2s + 1) / 8
  F32x16 scale(int part, int /*half*/) const {
    I32x16 steps = I32x16::broadcast(1);
    for (int i = 0; i < 3; ++i) steps = add_where(steps, scale_bits[part][i], 2 << i);
    return mul(F32x16::load_f16(d), mul(to_f32(steps), F32x16::broadcast(0.125f)));
  }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    for (int part = 0; part < 8; ++part) {
      const uint32_t word = read_u16(file + 34 + 2 * part);
      for (int group = 0; group < 4; ++group)
        points[part].set(row, group, file[2 + 4 * part + group] | (word >> (3 * group) & 7) << 8);
      for (int i = 0; i < 3; ++i) set_bit(scale_bits[part][i], row, word >> (12 + i) & 1);
      set_bit(negative[part], row, word >> 15);
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    for (int part = 0; part < 8; ++part) {
      uint32_t word = 0;
      for (int group = 0; group < 4; ++group) {
        const uint32_t point = points[part].get(row, group);
        file[2 + 4 * part + group] = static_cast<uint8_t>(point);
        word |= point >> 8 << (3 * group);
      }
      for (int i = 0; i < 3; ++i) word |= get_bit(scale_bits[part][i], row) << (12 + i);
      write_u16(file + 34 + 2 * part, word | get_bit(negative[part], row) << 15);
    }
  }
};
static_assert(sizeof(PanelIQ1_S) == 16 * PanelIQ1_S::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
