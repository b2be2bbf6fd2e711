// tq1_0 in a panel: 256 columns of 16 rows, words as in the file: five base-3 digits per byte, as a fraction of 256.
// Digit n of a byte is the leading digit of byte * 3^n (mod 256).
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: 48 bytes of five digits, 4 bytes of four, f16 scale.
struct PanelTQ1_0 : FileBlock<DType::tq1_0> {
  static constexpr int kMaxCode = 2, kOffset = 1;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::high;

  RowWords<13> words;  // 8 of 32 columns per digit, 4 of 16 columns per digit, 1 of 4 columns per digit
  uint16_t scales[16];

  void codes(int part, uint8_t (&to)[8][64]) const {
    if (part < 5) {
      for (int v = 0; v < 8; ++v) digit(v, part).store(to[v]);
    } else if (part < 7) {
      for (int v = 0; v < 8; ++v) digit(8 + v % 4, 2 * (part - 5) + v / 4).store(to[v]);
    } else {
      for (int v = 0; v < 4; ++v) digit(8 + v, 4).store(to[v]);
      for (int v = 0; v < 4; ++v) digit(12, v).store(to[v + 4]);
    }
  }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }

  void set_row(int row, const uint8_t* file) {
    words.set(row, file);
    scales[row] = read_u16(file + 52);
  }
  void get_row(int row, uint8_t* file) const {
    words.get(row, file);
    write_u16(file + 52, scales[row]);
  }

 private:
  U8x64 digit(int v, int n) const {
    U8x64 x = U8x64::load(words[v]);
    for (int i = 0; i < n; ++i) x = add(x, add(x, x));
    return trits(x);
  }
};
static_assert(sizeof(PanelTQ1_0) == 16 * PanelTQ1_0::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
