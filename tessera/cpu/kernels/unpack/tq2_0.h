// tq2_0 in a panel: 256 columns of 16 rows, words as in the file; part 4h + j is bits 2j of half h.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: 64 bytes of codes, f16 scale.
struct PanelTQ2_0 : FileBlock<DType::tq2_0> {
  static constexpr int kMaxCode = 3, kOffset = 1;
  static constexpr int kScales = 1, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  RowWords<8> halves[2];
  uint16_t scales[16];

  U8x64 low(int part, int v) const { return code(part, v); }
  U8x64 high(int part, int v) const { return code(part, v + 4); }
  F32x16 scale(int /*part*/, int /*half*/) const { return F32x16::load_f16(scales); }

  void set_row(int row, const uint8_t* file) {
    for (int half = 0; half < 2; ++half) halves[half].set(row, file + 32 * half);
    scales[row] = read_u16(file + 64);
  }
  void get_row(int row, uint8_t* file) const {
    for (int half = 0; half < 2; ++half) halves[half].get(row, file + 32 * half);
    write_u16(file + 64, scales[row]);
  }

 private:
  U8x64 code(int part, int v) const { return shift_right(U8x64::load(halves[part / 4][v]), 2 * (part % 4)) & 3; }
};
static_assert(sizeof(PanelTQ2_0) == 16 * PanelTQ2_0::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
