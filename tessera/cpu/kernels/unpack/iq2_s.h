// iq2_s in a panel: 256 columns of 16 rows.
#pragma once

#include "tessera/cpu/kernels/unpack/iq2.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 d, 32 bytes of grid index, 32 of signs, 8 of index bits 8-9, 8 of scales.
struct PanelIQ2_S : FileBlock<DType::iq2_s> {
  static constexpr int kMaxCode = kIq2MaxCode, kOffset = kIq2Offset;
  static constexpr int kScales = 2, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::high;
  static constexpr auto kGrid = make_grid(codebooks::kIq2s, kIq2Levels);

  ColumnBits signs[8];
  RowPoints<10> points[8];
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
      for (int group = 0; group < 4; ++group) {
        const uint32_t high = static_cast<uint32_t>(file[66 + part] >> (2 * group) & 3);
        points[part].set(row, group, file[2 + 4 * part + group] | high << 8);
      }
      signs[part].set(row, read_u32(file + 34 + 4 * part));
      scales[part][row] = file[74 + part];
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    for (int part = 0; part < 8; ++part) {
      uint32_t high = 0;
      for (int group = 0; group < 4; ++group) {
        const uint32_t point = points[part].get(row, group);
        file[2 + 4 * part + group] = static_cast<uint8_t>(point);
        high |= point >> 8 << (2 * group);
      }
      write_u32(file + 34 + 4 * part, signs[part].get(row));
      file[66 + part] = static_cast<uint8_t>(high);
      file[74 + part] = scales[part][row];
    }
  }
};
static_assert(sizeof(PanelIQ2_S) == 16 * PanelIQ2_S::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
