// iq2_xxs in a panel: 256 columns of 16 rows. Signs are stored with their parity bit, so panels are 6 % larger than the
// file.
#pragma once

#include "tessera/cpu/kernels/unpack/iq2.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 d; per 32 columns 4 grid bytes, u32: four 7-bit signs, 4-bit scale.
struct PanelIQ2_XXS : FileBlock<DType::iq2_xxs> {
  static constexpr int kMaxCode = kIq2MaxCode, kOffset = kIq2Offset;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::high;
  static constexpr auto kGrid = make_grid(codebooks::kIq2xxs, kIq2Levels);

  ColumnBits signs[8];
  RowPoints<8> points[8];
  RowNibbles scales;
  uint16_t d[16];

  [[gnu::always_inline]] void codes(int part, uint8_t (&to)[8][64]) const {
    codes_of_eights(
        kGrid, points[part], kIq2Codes, [&](int v) { return signs[part][v]; }, to);
  }
  F32x16 scale(int part, int /*half*/) const { return half_step_scale(d, scales.load(part), 0.25f); }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    for (int part = 0; part < 8; ++part) {
      const uint8_t* in = file + 2 + 8 * part;
      for (int group = 0; group < 4; ++group) points[part].set(row, group, in[group]);
      const uint32_t word = read_u32(in + 4);
      signs[part].set(row, signs_of_fields(word));
      scales.set(row, part, word >> 28);
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    for (int part = 0; part < 8; ++part) {
      uint8_t* to = file + 2 + 8 * part;
      for (int group = 0; group < 4; ++group) to[group] = static_cast<uint8_t>(points[part].get(row, group));
      write_u32(to + 4, fields_of_signs(signs[part].get(row)) | scales.get(row, part) << 28);
    }
  }
};
static_assert(sizeof(PanelIQ2_XXS) == 16 * (PanelIQ2_XXS::kFileBytes + 4));

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
