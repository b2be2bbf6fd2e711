// The layout of a KV cache block: kv.cpp writes it, attention.cpp reads it.
//
// A K block is four tiles of 16 tokens. A tile interleaves the rows of its tokens. For a plain dtype it is
// [element][16 tokens]. For other dtypes, the fields of the file's blocks follow each other for every 32 elements, each
// field as [16 tokens]: the f16 scale, an f16 minimum, a word of fifth bits, then the codes, one byte (q8_0) or four
// bytes (four-bit codes) at a time. So one load reads one element of 16 tokens, or a word with several elements, and a
// tile has exactly the size of 16 rows. No byte is shared by two tokens, so threads can store adjacent tokens at the
// same time. A V block is 64 rows in the dtype's file layout.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tessera/cpu/kernels/kernels.h"
#include "tessera/cpu/kernels/row_formats.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

inline constexpr int kTilesPerBlock = kBlockTokens / kTileTokens;
static_assert(kTileTokens == kLanes, "a tile holds one token per lane");

template <class Row>
size_t tile_bytes(int dim) {
  return Row::bytes(dim) * kTileTokens;
}

/// Calls copy(offset in the tile, offset in the row, bytes, kind) for each piece of the first n elements (whole blocks)
/// of the token in lane `lane`.
template <class Row, class Copy>
inline void for_each_piece(size_t lane, int n, Copy copy) {
  if constexpr (Row::kBlock == 1) {
    constexpr size_t kUnit = Row::kElementBytes;
    for (size_t e = 0; e < static_cast<size_t>(n); ++e)
      copy((e * kTileTokens + lane) * kUnit, e * kUnit, kUnit, FieldKind::plain);
  } else {
    for (size_t block = 0; block < Row::bytes(n); block += Row::kBlockBytes) {
      Row::for_each_field([=](size_t at, size_t bytes, FieldKind kind) {
        copy((block + at) * kTileTokens + lane * bytes, block + at, bytes, kind);
      });
    }
  }
}

/// Reads elements begin, begin + 1, ... of a tile's 16 tokens. One reader covers kSpan elements, and begin is a
/// multiple of kSpan. After step(i), at(j) returns element i + j for j < kStep; i ascends by kStep from 0.
template <class Row>
struct TileReader;

template <>
struct TileReader<RowF32> {
  static constexpr int kSpan = 1 << 30, kStep = 1;
  const float *elements, *current;

  TileReader() = default;
  TileReader(const void* tile, int begin) : elements(static_cast<const float*>(tile) + begin * kTileTokens) {}
  void step(int i) { current = elements + i * kTileTokens; }
  F32x16 at(int) const { return F32x16::load(current); }
};

template <>
struct TileReader<RowF16> {
  static constexpr int kSpan = 1 << 30, kStep = 1;
  const uint16_t *elements, *current;

  TileReader() = default;
  TileReader(const void* tile, int begin) : elements(static_cast<const uint16_t*>(tile) + begin * kTileTokens) {}
  void step(int i) { current = elements + i * kTileTokens; }
  F32x16 at(int) const { return F32x16::load_f16(current); }
};

template <>
struct TileReader<RowBF16> {
  static constexpr int kSpan = 1 << 30, kStep = 1;
  const uint16_t *elements, *current;

  TileReader() = default;
  TileReader(const void* tile, int begin) : elements(static_cast<const uint16_t*>(tile) + begin * kTileTokens) {}
  void step(int i) { current = elements + i * kTileTokens; }
  F32x16 at(int) const { return F32x16::load_bf16(current); }
};

template <>
struct TileReader<RowQ8_0> {
  static constexpr int kSpan = RowQ8_0::kBlock, kStep = 1;
  const int8_t *elements, *current;
  F32x16 scales;

  TileReader() = default;
  TileReader(const void* tile, int begin) {
    const char* group = static_cast<const char*>(tile) + tile_bytes<RowQ8_0>(begin);
    scales = F32x16::load_f16(reinterpret_cast<const uint16_t*>(group));
    elements = reinterpret_cast<const int8_t*>(group + RowQ8_0::kCodesAt * kTileTokens);
  }
  void step(int i) { current = elements + i * kTileTokens; }
  F32x16 at(int) const { return mul(F32x16::load_i8(current), scales); }
};

/// Reads half a block at a time: the low nibbles of its words, then the high ones.
template <class Row>
struct NibbleTileReader {
  static constexpr int kSpan = Row::kBlock / 2, kStep = 4;
  const char* words;
  int shift;  // of the nibbles of this half
  F32x16 scales, mins;
  I32x16 fifth_bits;  // bits 4, 12, 20, 28 belong to the current step's elements
  I32x16 codes;       // one byte per element of the current step, in its low bits

  NibbleTileReader() = default;
  NibbleTileReader(const void* tile, int begin) {
    const char* group = static_cast<const char*>(tile) + tile_bytes<Row>(begin);
    const bool is_second = begin % Row::kBlock != 0;
    shift = is_second ? 4 : 0;
    words = group + Row::kCodesAt * kTileTokens;
    scales = F32x16::load_f16(reinterpret_cast<const uint16_t*>(group));
    if constexpr (Row::kHasMin)
      mins = F32x16::load_f16(reinterpret_cast<const uint16_t*>(group + Row::kMinAt * kTileTokens));
    if constexpr (Row::kHasFifthBit) {
      const I32x16 bits = I32x16::load(group + Row::kFifthBitsAt * kTileTokens);
      fifth_bits = is_second ? bits : shift_left(bits, 4);
    }
  }
  void step(int i) {
    codes = shift_right(I32x16::load(words + i * kTileTokens), shift);
    if constexpr (Row::kHasFifthBit) {
      if (i != 0) fifth_bits = shift_right(fifth_bits, 1);
      codes = select_bits(0x10101010, fifth_bits, codes);
    }
  }
  F32x16 at(int j) const {
    const I32x16 code = shift_right(codes, 8 * j);
    F32x16 level;
    if constexpr (Row::kHasFifthBit) {
      level = Row::level_of_5_bits(code);
    } else {
      level = Row::level(code);
    }
    if constexpr (Row::kHasMin) return fma(level, scales, mins);
    return mul(level, scales);
  }
};

template <class Row>
requires requires { Row::kHasFifthBit; }
struct TileReader<Row> : NibbleTileReader<Row> {
  using NibbleTileReader<Row>::NibbleTileReader;
};

/// Calls visit(pair, first, second) for the elements 2 * pair and 2 * pair + 1 of a tile's 16 tokens. If dim is odd,
/// the last element is paired with 0.
template <class Row, class Visit>
inline void for_each_pair(const char* tile, int dim, Visit visit) {
  using Reader = TileReader<Row>;
  for (int begin = 0; begin < dim;) {
    const int n = dim - begin < Reader::kSpan ? dim - begin : Reader::kSpan;
    Reader reader(tile, begin);
    if constexpr (Reader::kStep == 1) {
      const auto element = [&](int i) {
        reader.step(i);
        return reader.at(0);
      };
      int i = 0;
      for (; i + 1 < n; i += 2) {
        const F32x16 first = element(i);
        visit((begin + i) / 2, first, element(i + 1));
      }
      if (i < n) visit((begin + i) / 2, element(i), F32x16::zero());
    } else {
      for (int i = 0; i < n; i += Reader::kStep) {
        reader.step(i);
#pragma GCC unroll 4
        for (int j = 0; j < Reader::kStep; j += 2) visit((begin + i + j) / 2, reader.at(j), reader.at(j + 1));
      }
    }
    begin += n;
  }
}

/// A format whose rows are read rounded to bf16.
template <class Row>
struct Rounded : Row {
  static F32x16 load(const void* row, int64_t e) { return nearest_bf16(Row::load(row, e)); }
  static F32x16 load_partial(const void* row, int64_t e, int n) { return nearest_bf16(Row::load_partial(row, e, n)); }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
