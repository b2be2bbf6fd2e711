// Code shared by the panels of the codebook formats: grids and their codes, sign bytes with their parity, and four-bit
// scales.
//
// The points of a grid have either eight columns with one of three values, or four columns with one of eight values. A
// kernel looks up 16 bits per point, as four nibbles with indices of values. With four columns, nibble i is the index
// of column i. With eight columns, its low two bits are the index of column i, its high two bits of column 4 + i. A
// second lookup converts indices and signs to codes.
#pragma once

#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/unpack/fields.h"

#include "tessera/quant/codebooks.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace codebooks = quant::codebooks;

/// A grid of N points for look_up_points().
template <size_t N>
struct Grid {
  alignas(64) uint16_t points[N];
};
/// Makes a grid from points of 4 or 8 bytes, each of which is one of `levels`.
template <class Point, size_t N, size_t kLevels>
constexpr Grid<N> make_grid(const Point (&points)[N], const int (&levels)[kLevels]) {
  constexpr int kShifts[8] = {0, 8, 4, 12, 2, 10, 6, 14};  // nibbles in the order of look_up_points()
  Grid<N> grid = {};
  for (size_t i = 0; i < N; ++i) {
    for (int column = 0; column < static_cast<int>(sizeof(Point)); ++column) {
      int number = 0;
      while (levels[number] != static_cast<int8_t>(points[i] >> (8 * column))) ++number;
      grid.points[i] = static_cast<uint16_t>(grid.points[i] | number << kShifts[column]);
    }
  }
  return grid;
}

/// Codes by index and sign bit, at entry index + 8 * sign. Grids of three levels have two indices per nibble. With the
/// bits of the other index cleared, the entry is index + 12 * sign for the low index, and 4 * index + 3 * sign for the
/// high one.
struct GridCodes {
  uint8_t of[16];
};
/// code(level, sign bit)
template <size_t kLevels>
constexpr GridCodes make_codes(const int (&levels)[kLevels], auto code) {
  static_assert(kLevels == 3 || kLevels == 8);
  GridCodes codes = {};
  for (size_t number = 0; number < kLevels; ++number) {
    for (size_t sign = 0; sign < 2; ++sign) {
      const auto value = static_cast<uint8_t>(code(levels[number], sign == 1));
      codes.of[number + (kLevels == 8 ? 8 : 12) * sign] = value;
      if (kLevels == 3) codes.of[4 * number + 3 * sign] = value;
    }
  }
  return codes;
}
/// offset + level, or offset - level if the sign bit is set.
template <size_t kLevels>
constexpr GridCodes make_signed_codes(const int (&levels)[kLevels], int offset) {
  return make_codes(levels, [offset](int level, bool sign) { return sign ? offset - level : offset + level; });
}

/// Four grid indices of kBits bits for each of sixteen rows. The low eight bits are in bytes, the others in masks.
/// Index i of row r is element 32 * (i / 2) + 2r + i % 2, so that two adjacent indices become one lane of two words.
template <int kBits>
struct RowPoints {
  uint8_t bytes[8 * kBits];

  void set(int row, int i, uint32_t value) {
    const int number = number_of(row, i);
    bytes[number] = static_cast<uint8_t>(value);
    for (int bit = 8; bit < kBits; ++bit) {
      uint8_t& mask = bytes[8 * bit + number / 8];
      const int others = mask & ~(1 << number % 8);
      mask = static_cast<uint8_t>(others | static_cast<int>(value >> bit & 1) << number % 8);
    }
  }
  uint32_t get(int row, int i) const {
    const int number = number_of(row, i);
    uint32_t value = bytes[number];
    for (int bit = 8; bit < kBits; ++bit)
      value |= static_cast<uint32_t>(bytes[8 * bit + number / 8] >> number % 8 & 1) << bit;
    return value;
  }

 private:
  static int number_of(int row, int i) { return 32 * (i / 2) + 2 * row + i % 2; }
};

/// The eight vectors of 32 columns, from four points of eight columns. sign_bits(v) returns the signs of vector v.
template <int kBits>
[[gnu::always_inline]] inline void codes_of_eights(const Grid<1 << kBits>& grid, const RowPoints<kBits>& points,
                                                   const GridCodes& codes, auto sign_bits, uint8_t (&to)[8][64]) {
  U8x64 nibbles[4];
  look_up_points<kBits>(grid.points, points.bytes, nibbles);
  TESSERA_UNROLL
  for (int i = 0; i < 4; ++i) {
    lookup(add_where(nibbles[i] & 3, sign_bits(2 * i), 12), codes.of).store(to[2 * i]);
    lookup(add_where(nibbles[i] & 12, sign_bits(2 * i + 1), 3), codes.of).store(to[2 * i + 1]);
  }
}
/// Likewise, from eight points of four columns.
template <int kBits>
[[gnu::always_inline]] inline void codes_of_fours(const Grid<1 << kBits>& grid, const RowPoints<kBits> (&points)[2],
                                                  const GridCodes& codes, const ColumnBits& signs,
                                                  uint8_t (&to)[8][64]) {
  TESSERA_UNROLL
  for (int i = 0; i < 2; ++i) {
    U8x64 nibbles[4];
    look_up_points<kBits>(grid.points, points[i].bytes, nibbles);
    TESSERA_UNROLL
    for (int v = 0; v < 4; ++v) lookup(add_where(nibbles[v], signs[4 * i + v], 8), codes.of).store(to[4 * i + v]);
  }
}

/// 32 sign bits for four groups of eight columns, from four 7-bit fields. The eighth sign is the parity of the field.
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
