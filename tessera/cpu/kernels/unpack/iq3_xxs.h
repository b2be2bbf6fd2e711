// iq3_xxs in a panel: 256 columns of 16 rows. Signs are stored with their parity bit, so panels are 4 % larger than the
// file.
#pragma once

#include "tessera/cpu/kernels/unpack/grids.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 d, 64 grid bytes, 8 u32: four 7-bit signs, 4-bit scale.
struct PanelIQ3_XXS : FileBlock<DType::iq3_xxs> {
  static constexpr int kMaxCode = 126, kOffset = 64;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::high;
  static constexpr int kLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
  static constexpr auto kGrid = make_grid(codebooks::kIq3xxs, kLevels);
  static constexpr GridCodes kCodes = make_signed_codes(kLevels, kOffset);

  ColumnBits signs[8];
  RowPoints<8> points[8][2];
  RowNibbles scales;
  uint16_t d[16];

  [[gnu::always_inline]] void codes(int part, uint8_t (&to)[8][64]) const {
    codes_of_fours(kGrid, points[part], kCodes, signs[part], to);
  }
  F32x16 scale(int part, int /*half*/) const { return half_step_scale(d, scales.load(part), 0.5f); }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    for (int part = 0; part < 8; ++part) {
      for (int v = 0; v < 8; ++v) points[part][v / 4].set(row, v % 4, file[2 + 8 * part + v]);
      const uint32_t word = read_u32(file + 66 + 4 * part);
      signs[part].set(row, signs_of_fields(word));
      scales.set(row, part, word >> 28);
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    for (int part = 0; part < 8; ++part) {
      for (int v = 0; v < 8; ++v) file[2 + 8 * part + v] = static_cast<uint8_t>(points[part][v / 4].get(row, v % 4));
      write_u32(file + 66 + 4 * part, fields_of_signs(signs[part].get(row)) | scales.get(row, part) << 28);
    }
  }
};
static_assert(sizeof(PanelIQ3_XXS) == 16 * (PanelIQ3_XXS::kFileBytes + 4));

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
