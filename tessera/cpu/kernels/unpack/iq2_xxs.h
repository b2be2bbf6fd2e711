// iq2_xxs in a panel: 256 columns of 16 rows. The signs have their parity bit, which takes 6 % more than the file.
#pragma once

#include "tessera/cpu/kernels/unpack/grids.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct PanelIQ2_XXS {
  static constexpr int kColumns = 256;
  static constexpr size_t kFileBytes = 66;  // f16 d; per 32 columns 4 grid bytes, u32: four 7-bit signs, 4-bit scale
  static constexpr int kMaxCode = 107, kOffset = 64;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr bool kTilesUnpack = false;

  ColumnBits signs[8];
  RowIndex<8> points[8][4];
  RowNibbles scales;
  uint16_t d[16];

  void codes(int part, uint8_t (&to)[8][64]) const {
    for (int group = 0; group < 4; ++group) {
      U8x64 first, second;
      gather(codebooks::kIq2xxs, points[part][group].load(), first, second);
      signed_codes(first, signs[part][2 * group], kOffset).store(to[2 * group]);
      signed_codes(second, signs[part][2 * group + 1], kOffset).store(to[2 * group + 1]);
    }
  }
  F32x16 scale(int part, int /*half*/) const { return half_step_scale(d, scales.load(part), 0.25f); }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    for (int part = 0; part < 8; ++part) {
      const uint8_t* in = file + 2 + 8 * part;
      for (int group = 0; group < 4; ++group) points[part][group].set(row, in[group]);
      const uint32_t word = read_u32(in + 4);
      signs[part].set(row, signs_of_fields(word));
      scales.set(row, part, word >> 28);
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    for (int part = 0; part < 8; ++part) {
      uint8_t* to = file + 2 + 8 * part;
      for (int group = 0; group < 4; ++group) to[group] = static_cast<uint8_t>(points[part][group].get(row));
      write_u32(to + 4, fields_of_signs(signs[part].get(row)) | scales.get(row, part) << 28);
    }
  }
};
static_assert(sizeof(PanelIQ2_XXS) == 16 * (PanelIQ2_XXS::kFileBytes + 4));

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
