// Fields shared by the panels of several formats. Lane (row) r of a vector is its bytes 4r to 4r+3: four consecutive
// columns.
#pragma once

#include <string.h>

#include "tessera/cpu/kernels/int8_dot.h"
#include "tessera/tensor/dtype_rows.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The size of a row's block in the file; base of the panel structs.
template <DType kDType>
struct FileBlock {
  static constexpr int kColumns = block_size(kDType).elements;
  static constexpr size_t kFileBytes = block_size(kDType).bytes;
};

/// The bytes of sixteen rows, word by word and unchanged: N vectors for 4N bytes of each row.
template <int N>
struct RowWords {
  uint8_t vectors[N][64];

  const uint8_t* operator[](int v) const { return vectors[v]; }
  void set(int row, const uint8_t* file) {
    for (int v = 0; v < N; ++v) memcpy(&vectors[v][4 * row], file + 4 * v, 4);
  }
  void get(int row, uint8_t* file) const {
    for (int v = 0; v < N; ++v) memcpy(file + 4 * v, &vectors[v][4 * row], 4);
  }
};

/// One bit per row and column, for 32 columns: bit 4r + i of mask v is for row r, column 4v + i.
struct ColumnBits {
  uint64_t masks[8];

  uint64_t operator[](int v) const { return masks[v]; }
  /// Sets the bits of a row; bit i of `bits` is column i.
  void set(int row, uint32_t bits) {
    for (int v = 0; v < 8; ++v) {
      masks[v] &= ~(uint64_t{15} << (4 * row));
      masks[v] |= uint64_t{bits >> (4 * v) & 15} << (4 * row);
    }
  }
  uint32_t get(int row) const {
    uint32_t bits = 0;
    for (int v = 0; v < 8; ++v) bits |= static_cast<uint32_t>(masks[v] >> (4 * row) & 15) << (4 * v);
    return bits;
  }
};

/// x * factor modulo 256 in every byte; the factor's low 16 bits are in both halves of a lane.
inline U8x64 multiply_bytes(U8x64 x, U8x64 factor) {
  const U8x64 odd = multiply16(and16(x, 0xff00), factor);
  return and16(multiply16(and16(x, 0x00ff), factor), 0x00ff) | odd;
}

inline uint16_t read_u16(const uint8_t* p) {
  uint16_t v;
  memcpy(&v, p, 2);
  return v;
}
inline uint32_t read_u32(const uint8_t* p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}
inline void write_u16(uint8_t* p, uint32_t v) {
  const auto narrow = static_cast<uint16_t>(v);
  memcpy(p, &narrow, 2);
}
inline void write_u32(uint8_t* p, uint32_t v) { memcpy(p, &v, 4); }

/// Sets bit `row` of a mask of rows.
inline void set_bit(uint16_t& mask, int row, uint32_t bit) {
  mask = static_cast<uint16_t>((mask & ~(1u << row)) | bit << row);
}
inline uint32_t get_bit(uint16_t mask, int row) { return static_cast<uint32_t>(mask >> row & 1); }

inline F32x16 negate(F32x16 x) { return sub(F32x16::broadcast(-0.0f), x); }

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
