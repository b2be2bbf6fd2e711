// iq4_nl in a panel: 32 columns of 16 rows, words as in the file; codes are looked up in a table.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The values of the format plus 128.
inline constexpr uint8_t kIq4Codes[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

/// A row in the file: f16 scale, 16 bytes of codes.
struct PanelIQ4_NL : FileBlock<DType::iq4_nl> {
  static constexpr int kMaxCode = 255, kOffset = 128;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::low;

  RowWords<4> codes;  // columns 4v to 4v+3, and 16 later in the high nibbles
  uint16_t scales[16];

  U8x64 low(int /*part*/, int v) const { return lookup(low_nibbles(codes[v]), kIq4Codes); }
  U8x64 high(int /*part*/, int v) const { return lookup(high_nibbles(codes[v]), kIq4Codes); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }

  void set_row(int row, const uint8_t* file) {
    scales[row] = read_u16(file);
    codes.set(row, file + 2);
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, scales[row]);
    codes.get(row, file + 2);
  }
};
static_assert(sizeof(PanelIQ4_NL) == 16 * PanelIQ4_NL::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
