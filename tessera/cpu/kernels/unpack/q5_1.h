// q5_1 in a panel: 32 columns of 16 rows; the codes' fifth bits are masks of columns.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 scale, f16 minimum, u32 of fifth bits, 16 bytes of low nibbles.
struct PanelQ5_1 : FileBlock<DType::q5_1> {
  static constexpr int kMaxCode = 31, kOffset = 0;
  static constexpr int kScales = 1, kMins = 1;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  ColumnBits fifth;
  RowWords<4> codes;  // columns 4v to 4v+3, and 16 later in the high nibbles
  uint16_t scales[16];
  uint16_t mins[16];

  U8x64 low(int /*part*/, int v) const { return add_where(low_nibbles(codes[v]), fifth[v], 16); }
  U8x64 high(int /*part*/, int v) const { return add_where(high_nibbles(codes[v]), fifth[v + 4], 16); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }
  F32x16 min(int /*part*/, int /*half*/) const { return F32x16::load_f16(mins); }

  void set_row(int row, const uint8_t* file) {
    scales[row] = read_u16(file);
    mins[row] = read_u16(file + 2);
    fifth.set(row, read_u32(file + 4));
    codes.set(row, file + 8);
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, scales[row]);
    write_u16(file + 2, mins[row]);
    write_u32(file + 4, fifth.get(row));
    codes.get(row, file + 8);
  }
};
static_assert(sizeof(PanelQ5_1) == 16 * PanelQ5_1::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
