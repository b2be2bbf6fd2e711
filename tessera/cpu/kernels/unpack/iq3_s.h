// iq3_s in a panel: 256 columns of 16 rows.
#pragma once

#include "tessera/cpu/kernels/unpack/grids.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 d, 64 bytes of grid index, 8 of ninth bits, 32 of signs, 4 of scales.
struct PanelIQ3_S : FileBlock<DType::iq3_s> {
  static constexpr int kMaxCode = 31, kOffset = 16;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::high;
  static constexpr int kLevels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
  static constexpr auto kGrid = make_grid(codebooks::kIq3s, kLevels);
  static constexpr GridCodes kCodes = make_signed_codes(kLevels, kOffset);

  ColumnBits signs[8];
  RowPoints<9> points[8][2];
  RowNibbles scales;
  uint16_t d[16];

  [[gnu::always_inline]] void codes(int part, uint8_t (&to)[8][64]) const {
    codes_of_fours(kGrid, points[part], kCodes, signs[part], to);
  }
  /// d * (1 + 2s)
  F32x16 scale(int part, int /*half*/) const { return half_step_scale(d, scales.load(part), 2.0f); }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    for (int part = 0; part < 8; ++part) {
      for (int v = 0; v < 8; ++v) {
        const uint32_t ninth = static_cast<uint32_t>(file[66 + part] >> v & 1);
        points[part][v / 4].set(row, v % 4, file[2 + 8 * part + v] | ninth << 8);
      }
      signs[part].set(row, read_u32(file + 74 + 4 * part));
      scales.set(row, part, static_cast<uint32_t>(file[106 + part / 2] >> (4 * (part % 2)) & 15));
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    for (int part = 0; part < 8; ++part) {
      uint32_t ninths = 0;
      for (int v = 0; v < 8; ++v) {
        const uint32_t point = points[part][v / 4].get(row, v % 4);
        file[2 + 8 * part + v] = static_cast<uint8_t>(point);
        ninths |= point >> 8 << v;
      }
      file[66 + part] = static_cast<uint8_t>(ninths);
      write_u32(file + 74 + 4 * part, signs[part].get(row));
    }
    for (int i = 0; i < 4; ++i)
      file[106 + i] = static_cast<uint8_t>(scales.get(row, 2 * i) | scales.get(row, 2 * i + 1) << 4);
  }
};
static_assert(sizeof(PanelIQ3_S) == 16 * PanelIQ3_S::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
