// q1_0 in a panel: 128 columns of 16 rows; a weight is the scale or its negative.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 scale, 16 bytes: one bit per column.
struct PanelQ1_0 : FileBlock<DType::q1_0> {
  static constexpr int kMaxCode = 2, kOffset = 1;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  ColumnBits positive[4];
  uint16_t scales[16];

  U8x64 low(int part, int v) const { return bits(positive[part][v]); }
  U8x64 high(int part, int v) const { return bits(positive[part][v + 4]); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }

  void set_row(int row, const uint8_t* file) {
    scales[row] = read_u16(file);
    for (int part = 0; part < 4; ++part) positive[part].set(row, read_u32(file + 2 + 4 * part));
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, scales[row]);
    for (int part = 0; part < 4; ++part) write_u32(file + 2 + 4 * part, positive[part].get(row));
  }

 private:
  static U8x64 bits(uint64_t mask) { return add_where(broadcast_u8(0), mask, 2); }
};
static_assert(sizeof(PanelQ1_0) == 16 * PanelQ1_0::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
