// What the panels of the codebook formats share: sign bytes with their parity, four-bit scales.
#pragma once

#include "tessera/cpu/kernels/unpack/fields.h"

#include "tessera/quant/codebooks.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace codebooks = quant::codebooks;

/// 32 sign bits of four groups of eight columns, from four 7-bit fields whose eighth sign is the parity.
inline uint32_t signs_of_fields(uint32_t fields) {
  uint32_t bits = 0;
  for (int group = 0; group < 4; ++group)
    bits |= uint32_t{codebooks::kSigns[fields >> (7 * group) & 127]} << (8 * group);
  return bits;
}
inline uint32_t fields_of_signs(uint32_t bits) {
  uint32_t fields = 0;
  for (int group = 0; group < 4; ++group) fields |= (bits >> (8 * group) & 127) << (7 * group);
  return fields;
}

/// Eight four-bit numbers of sixteen rows: number i in nibble i % 2 of byte i / 2.
struct RowNibbles {
  uint8_t pairs[4][16];

  I32x16 load(int i) const { return load_u4(pairs[i / 2], 4 * (i % 2)); }
  void set(int row, int i, uint32_t value) {
    const int shift = 4 * (i % 2);
    const int others = pairs[i / 2][row] & (0xf0 >> shift);
    pairs[i / 2][row] = static_cast<uint8_t>(others | static_cast<int>(value) << shift);
  }
  uint32_t get(int row, int i) const { return static_cast<uint32_t>(pairs[i / 2][row] >> (4 * (i % 2)) & 15); }
};

/// d * (0.5 + s) * unit, exact for four-bit s.
inline F32x16 half_step_scale(const uint16_t* d, I32x16 s, float unit) {
  const F32x16 steps = add(to_f32(s), F32x16::broadcast(0.5f));
  return mul(F32x16::load_f16(d), mul(steps, F32x16::broadcast(unit)));
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
