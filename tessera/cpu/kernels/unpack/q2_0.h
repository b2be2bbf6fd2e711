// q2_0 in a panel: 64 columns of 16 rows. In the file, byte j has columns 4j to 4j+3. Here, the pairs of bits of a byte
// are for columns 16 apart, so that one shift gives a vector.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 scale, 16 bytes: two bits per column.
struct PanelQ2_0 : FileBlock<DType::q2_0> {
  static constexpr int kMaxCode = 3, kOffset = 1;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  RowWords<4> codes;  // columns 4v to 4v+3 of each quarter of the block: quarter q at bit 2q
  uint16_t scales[16];

  U8x64 low(int part, int v) const { return shift_right(U8x64::load(codes[v]), 4 * part) & 3; }
  U8x64 high(int part, int v) const { return shift_right(U8x64::load(codes[v]), 4 * part + 2) & 3; }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }

  void set_row(int row, const uint8_t* file) {
    scales[row] = read_u16(file);
    uint8_t moved[16];
    transpose(file + 2, moved);
    codes.set(row, moved);
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, scales[row]);
    uint8_t moved[16] = {};
    codes.get(row, moved);
    // Column c = 16q + r is at (byte r, bit 2q) here and at (byte c/4, bit 2(c%4)) in the file.
    for (int j = 0; j < 16; ++j) {
      int byte = 0;
      for (int i = 0; i < 4; ++i) {
        const int column = 4 * j + i;
        byte |= (moved[column % 16] >> (2 * (column / 16)) & 3) << (2 * i);
      }
      file[2 + j] = static_cast<uint8_t>(byte);
    }
  }

 private:
  static void transpose(const uint8_t* file, uint8_t* moved) {
    for (int r = 0; r < 16; ++r) {
      int byte = 0;
      for (int quarter = 0; quarter < 4; ++quarter) {
        const int column = 16 * quarter + r;
        byte |= (file[column / 4] >> (2 * (column % 4)) & 3) << (2 * quarter);
      }
      moved[r] = static_cast<uint8_t>(byte);
    }
  }
};
static_assert(sizeof(PanelQ2_0) == 16 * PanelQ2_0::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
