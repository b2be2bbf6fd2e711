// mxfp4 in a panel: 32 columns of 16 rows, words as in the file; scales are powers of two,
// halved because the codes are doubled.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"
#include "tessera/cpu/kernels/unpack/fp4.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: exponent byte, 16 bytes of codes.
struct PanelMXFP4 : FileBlock<DType::mxfp4> {
  static constexpr int kMaxCode = 24, kOffset = 12;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::low;

  RowWords<4> codes;  // columns 4v to 4v+3, and 16 later in the high nibbles
  uint8_t exponents[16];

  U8x64 low(int /*part*/, int v) const { return lookup(low_nibbles(codes[v]), kFp4Codes); }
  U8x64 high(int /*part*/, int v) const { return lookup(high_nibbles(codes[v]), kFp4Codes); }
  F32x16 scale(int /*part*/, int /*half*/) const { return powers_of_two(load_u8(exponents)); }

  void set_row(int row, const uint8_t* file) {
    exponents[row] = file[0];
    codes.set(row, file + 1);
  }
  void get_row(int row, uint8_t* file) const {
    file[0] = exponents[row];
    codes.get(row, file + 1);
  }
};
static_assert(sizeof(PanelMXFP4) == 16 * PanelMXFP4::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
