// iq2_xs in a panel: 256 columns of 16 rows. Signs are stored with their parity bit, so panels are 5 % larger than the
// file.
#pragma once

#include "tessera/cpu/kernels/unpack/iq2.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 d, 32 u16 of 9-bit grid index and 7-bit signs, 8 bytes of scales.
struct PanelIQ2_XS : FileBlock<DType::iq2_xs> {
  static constexpr int kMaxCode = kIq2MaxCode, kOffset = kIq2Offset;
  static constexpr int kScales = 2, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::high;
  static constexpr auto kGrid = make_grid(codebooks::kIq2xs, kIq2Levels);

  ColumnBits signs[8];
  RowPoints<9> points[8];
  uint8_t scales[8][16];  // by part: first half in the low nibble
  uint16_t d[16];

  [[gnu::always_inline]] void codes(int part, uint8_t (&to)[8][64]) const {
    codes_of_eights(
        kGrid, points[part], kIq2Codes, [&](int v) { return signs[part][v]; }, to);
  }
  F32x16 scale(int part, int half) const { return half_step_scale(d, load_u4(scales[part], 4 * half), 0.25f); }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    for (int part = 0; part < 8; ++part) {
      uint32_t fields = 0;
      for (int group = 0; group < 4; ++group) {
        const uint32_t word = read_u16(file + 2 + 8 * part + 2 * group);
        points[part].set(row, group, word & 511);
        fields |= word >> 9 << (7 * group);
      }
      signs[part].set(row, signs_of_fields(fields));
      scales[part][row] = file[66 + part];
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    for (int part = 0; part < 8; ++part) {
      const uint32_t fields = fields_of_signs(signs[part].get(row));
      for (int group = 0; group < 4; ++group)
        write_u16(file + 2 + 8 * part + 2 * group, points[part].get(row, group) | (fields >> (7 * group) & 127) << 9);
      file[66 + part] = scales[part][row];
    }
  }
};
static_assert(sizeof(PanelIQ2_XS) == 16 * (PanelIQ2_XS::kFileBytes + 4));

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
