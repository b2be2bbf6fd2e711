// Where the elements of a KV cache block lie: kv_format.cpp writes by it, attention.cpp reads by it.
//
// A K block is four tiles of 16 tokens. A tile of a plain dtype is [element][16 tokens]; one of q8_0 is, per
// 32 elements, 16 f16 scales and then int8 [element][16 tokens]. So one load is one element of 16 tokens, and
// a tile takes exactly 16 rows' bytes. A V block is 64 rows in the dtype's file form.
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

/// Elements begin, begin + 1, ... of a tile's 16 tokens; kSpan of them share one reader (begin is a
/// multiple).
template <class Row>
struct TileReader;

template <>
struct TileReader<RowF32> {
  static constexpr int kSpan = 1 << 30;
  const float* elements;

  TileReader() = default;
  TileReader(const void* tile, int begin) : elements(static_cast<const float*>(tile) + begin * kTileTokens) {}
  F32x16 at(int i) const { return F32x16::load(elements + i * kTileTokens); }
};

template <>
struct TileReader<RowF16> {
  static constexpr int kSpan = 1 << 30;
  const uint16_t* elements;

  TileReader() = default;
  TileReader(const void* tile, int begin) : elements(static_cast<const uint16_t*>(tile) + begin * kTileTokens) {}
  F32x16 at(int i) const { return F32x16::load_f16(elements + i * kTileTokens); }
};

template <>
struct TileReader<RowBF16> {
  static constexpr int kSpan = 1 << 30;
  const uint16_t* elements;

  TileReader() = default;
  TileReader(const void* tile, int begin) : elements(static_cast<const uint16_t*>(tile) + begin * kTileTokens) {}
  F32x16 at(int i) const { return F32x16::load_bf16(elements + i * kTileTokens); }
};

inline constexpr int kQ8TileScaleBytes = 2 * kTileTokens;

template <>
struct TileReader<RowQ8_0> {
  static constexpr int kSpan = RowQ8_0::kBlock;
  const int8_t* elements;
  F32x16 scales;

  TileReader() = default;
  TileReader(const void* tile, int begin) {
    const char* group = static_cast<const char*>(tile) + tile_bytes<RowQ8_0>(begin);
    scales = F32x16::load_f16(reinterpret_cast<const uint16_t*>(group));
    elements = reinterpret_cast<const int8_t*>(group + kQ8TileScaleBytes);
  }
  F32x16 at(int i) const { return mul(F32x16::load_i8(elements + i * kTileTokens), scales); }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
