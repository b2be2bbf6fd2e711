// nvfp4 in a panel: 64 columns of 16 rows. In the file, each sub-block of 16 columns has the first eight in low
// nibbles. Here, the first 16 columns of a part are low nibbles, and the last 16 high ones. Scales are halved because
// the codes are doubled.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"
#include "tessera/cpu/kernels/unpack/fp4.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// A row in the file: 4 scale bytes, 32 bytes of codes.
struct PanelNVFP4 : FileBlock<DType::nvfp4> {
  static constexpr int kMaxCode = 24, kOffset = 12;
  static constexpr int kScales = 2, kMins = 0;
  static constexpr UnpackCost kUnpackCost = UnpackCost::medium;

  RowWords<4> parts[2];
  uint8_t scales[4][16];

  U8x64 low(int part, int v) const { return lookup(low_nibbles(parts[part][v]), kFp4Codes); }
  U8x64 high(int part, int v) const { return lookup(high_nibbles(parts[part][v]), kFp4Codes); }
  F32x16 scale(int part, int half) const { return halves_of_e4m3(load_u8(scales[2 * part + half])); }

  void set_row(int row, const uint8_t* file) {
    for (int i = 0; i < 4; ++i) scales[i][row] = file[i];
    for (int part = 0; part < 2; ++part) {
      const uint8_t* codes = file + 4 + 16 * part;  // 8 bytes for columns 0-15, then 8 bytes for columns 16-31
      uint8_t paired[16];
      for (int i = 0; i < 8; ++i) {
        paired[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[8 + i] & 15) << 4);
        paired[8 + i] = static_cast<uint8_t>(codes[i] >> 4 | (codes[8 + i] & 0xf0));
      }
      parts[part].set(row, paired);
    }
  }
  void get_row(int row, uint8_t* file) const {
    for (int i = 0; i < 4; ++i) file[i] = scales[i][row];
    for (int part = 0; part < 2; ++part) {
      uint8_t paired[16];
      parts[part].get(row, paired);
      uint8_t* codes = file + 4 + 16 * part;
      for (int i = 0; i < 8; ++i) {
        codes[i] = static_cast<uint8_t>((paired[i] & 15) | (paired[8 + i] & 15) << 4);
        codes[8 + i] = static_cast<uint8_t>(paired[i] >> 4 | (paired[8 + i] & 0xf0));
      }
    }
  }
};
static_assert(sizeof(PanelNVFP4) == 16 * PanelNVFP4::kFileBytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
