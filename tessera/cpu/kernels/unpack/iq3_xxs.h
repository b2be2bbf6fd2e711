// iq3_xxs in a panel: 256 columns of 16 rows. The signs have their parity bit, which takes 4 % more than the file.
#pragma once

#include "tessera/cpu/kernels/unpack/grids.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct PanelIQ3_XXS {
  static constexpr int kColumns = 256;
  static constexpr size_t kFileBytes = 98;  // f16 d, 64 grid bytes, 8 u32: four 7-bit signs, 4-bit scale
  static constexpr int kMaxCode = 126, kOffset = 64;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr bool kTilesUnpack = true;

  ColumnBits signs[8];
  RowIndex<8> points[8][8];
  RowNibbles scales;
  uint16_t d[16];

  U8x64 low(int part, int v) const { return code(part, v); }
  U8x64 high(int part, int v) const { return code(part, v + 4); }
  F32x16 scale(int part, int /*half*/) const { return half_step_scale(d, scales.load(part), 0.5f); }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    for (int part = 0; part < 8; ++part) {
      for (int v = 0; v < 8; ++v) points[part][v].set(row, file[2 + 8 * part + v]);
      const uint32_t word = read_u32(file + 66 + 4 * part);
      signs[part].set(row, signs_of_fields(word));
      scales.set(row, part, word >> 28);
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    for (int part = 0; part < 8; ++part) {
      for (int v = 0; v < 8; ++v) file[2 + 8 * part + v] = static_cast<uint8_t>(points[part][v].get(row));
      write_u32(file + 66 + 4 * part, fields_of_signs(signs[part].get(row)) | scales.get(row, part) << 28);
    }
  }

 private:
  U8x64 code(int part, int v) const {
    return signed_codes(gather(codebooks::kIq3xxs, points[part][v].load()), signs[part][v], kOffset);
  }
};
static_assert(sizeof(PanelIQ3_XXS) == 16 * (PanelIQ3_XXS::kFileBytes + 4));

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
