// q4_1 in a panel: 32 columns of 16 rows, words as in the file.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 scale, f16 minimum, 16 bytes of codes.
struct PanelQ4_1 : FileBlock<DType::q4_1> {
  static constexpr int kMaxCode = 15, kOffset = 0;
  static constexpr int kScales = 1, kMins = 1;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  RowWords<4> codes;  // columns 4v to 4v+3, and 16 later in the high nibbles
  uint16_t scales[16], mins[16];

  U8x64 low(int /*part*/, int v) const { return low_nibbles(codes[v]); }
  U8x64 high(int /*part*/, int v) const { return high_nibbles(codes[v]); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }
  F32x16 min(int /*part*/, int /*half*/) const { return F32x16::load_f16(mins); }

  void set_row(int row, const uint8_t* file) {
    scales[row] = read_u16(file);
    mins[row] = read_u16(file + 2);
    codes.set(row, file + 4);
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, scales[row]);
    write_u16(file + 2, mins[row]);
    codes.get(row, file + 4);
  }
};
static_assert(sizeof(PanelQ4_1) == 16 * PanelQ4_1::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
