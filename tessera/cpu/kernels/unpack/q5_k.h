// q5_K in a panel: 256 columns of 16 rows, words as in the file; parts 2c and 2c+1 are the low and high nibbles of
// chunk c. Six-bit scales and minima are stored as bytes, so panels are 2.3 % larger than the file.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"
#include "tessera/cpu/kernels/unpack/k_scales.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: f16 d, f16 dmin, 12 bytes of scales, 32 bytes of fifth bits, 128 bytes of nibbles.
struct PanelQ5_K : FileBlock<DType::q5_k> {
  static constexpr int kMaxCode = 31, kOffset = 0;
  static constexpr int kScales = 1, kMins = 1;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  RowWords<8> chunks[4];
  RowWords<8> fifth;  // bit p is for part p
  KScales scales;
  uint16_t d[16], dmin[16];

  U8x64 low(int part, int v) const { return code(part, v); }
  U8x64 high(int part, int v) const { return code(part, v + 4); }
  F32x16 scale(int part, int /*half*/) const { return mul(F32x16::load_f16(d), scales.scale(part)); }
  F32x16 min(int part, int /*half*/) const { return mul(negate(F32x16::load_f16(dmin)), scales.min(part)); }

  void set_row(int row, const uint8_t* file) {
    d[row] = read_u16(file);
    dmin[row] = read_u16(file + 2);
    scales.set(row, file + 4);
    fifth.set(row, file + 16);
    for (int c = 0; c < 4; ++c) chunks[c].set(row, file + 48 + 32 * c);
  }
  void get_row(int row, uint8_t* file) const {
    write_u16(file, d[row]);
    write_u16(file + 2, dmin[row]);
    scales.get(row, file + 4);
    fifth.get(row, file + 16);
    for (int c = 0; c < 4; ++c) chunks[c].get(row, file + 48 + 32 * c);
  }

 private:
  U8x64 code(int part, int v) const {
    const uint8_t* nibbles = chunks[part / 2][v];
    const U8x64 low4 = part % 2 == 0 ? low_nibbles(nibbles) : high_nibbles(nibbles);
    return add_if_bit(low4, U8x64::load(fifth[v]), part, 16);
  }
};
static_assert(sizeof(PanelQ5_K) == 16 * (PanelQ5_K::kFileBytes + 4));

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
