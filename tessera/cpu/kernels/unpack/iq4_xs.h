// iq4_xs in a panel: 256 columns of 16 rows; six-bit scales are stored as bytes, so panels are 1.5 % larger than
// the file.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"
#include "tessera/cpu/kernels/unpack/iq4_nl.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 d, u16 scales_h, 4 bytes scales_l, 128 bytes of codes.
struct PanelIQ4_XS : FileBlock<DType::iq4_xs> {
  static constexpr int kMaxCode = 255, kOffset = 128;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::low;

  RowWords<4> parts[8];  // codes as in iq4_nl
  uint16_t d[16];
  int8_t scales[8][16];  // by part, minus the format's offset of 32

  U8x64 low(int part, int v) const { return lookup(low_nibbles(parts[part][v]), kIq4Codes); }
  U8x64 high(int part, int v) const { return lookup(high_nibbles(parts[part][v]), kIq4Codes); }
  F32x16 scale(int part, int /*half*/) const { return mul(F32x16::load_f16(d), F32x16::load_i8(scales[part])); }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    const uint32_t high = read_u16(file + 2);
    for (int part = 0; part < 8; ++part) {
      const int low4 = file[4 + part / 2] >> (4 * (part % 2)) & 15, high2 = static_cast<int>(high >> (2 * part) & 3);
      scales[part][row] = static_cast<int8_t>((low4 | high2 << 4) - 32);
      parts[part].set(row, file + 8 + 16 * part);
    }
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    uint32_t high = 0, low = 0;
    for (int part = 0; part < 8; ++part) {
      const auto scale = static_cast<uint32_t>(scales[part][row] + 32);
      low |= (scale & 15) << (4 * part);
      high |= (scale >> 4) << (2 * part);
      parts[part].get(row, file + 8 + 16 * part);
    }
    write_u16(file + 2, high);
    write_u32(file + 4, low);
  }
};
static_assert(sizeof(PanelIQ4_XS) == 16 * (PanelIQ4_XS::kFileBytes + 2));

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
