// Dot products of unsigned weight codes with signed activations, sixteen rows of four columns at a time, for the
// kernels of one instruction set. Used by unpack/*.h and matmul_int8.h.
//
//   U8x64          64 codes: lane r is four consecutive columns of row r
//   I8x4           four activations of one token, in every lane
//   BlockDot<Block>
//                  the sums of a format over the columns that share a scale (matmul_int8.h): start(word),
//                  add(codes, activations) for each four columns, then finish(word) as floats. They are exact for
//                  activations -127 to 127. The sums are of code - kOffset; with minima, they are of codes
//   BlockDot<Block>::kStart
//                  what the word holds, as a sum of the activations times kFactor (StartKind)
//   BlockDot<Block>::scaled(factors)
//                  the sums times an integer of each lane, as int32, without minima
//   make_factors(lanes)
//                  the Factors of int32 lanes from -128 to 127
//   kUnpacksProducts
//                  whether unpacked codes are multiplied by integer scales, which makes them larger
//   kInt8Tokens, kInt8Panels
//                  the largest tile of several panels that fits in the registers (int8_tile.h)
//   kInt8PanelTokens
//                  the tokens of the largest tile of one panel: kInt8Tokens or up to twice as many
//   kTokenTile     the tokens that are packed together: kInt8Tokens, or 16 with a tile unit (matmul_tiles.h)
//   kPanelTokens   kInt8PanelTokens, or kInt8Tokens with a tile unit
//   kInt8Unroll    unroll factor of its loop over a block's four vector pairs
//
// Operations for unpacking formats; n, bit and byte are the same for all lanes:
//   broadcast_u8(byte)             the same value in every byte
//   x & byte, and16(x, word), x | y, add, shift_left(x, n), shift_right(x, n)
//                                  the caller must mask bits that a shift moves into a neighbouring byte
//   low_nibbles, high_nibbles(p)   of 64 bytes
//   add_where(x, mask, byte)       adds `byte` to byte i if bit i of the mask is set
//   add_if_bit(x, plane, bit, byte)    adds `byte` to byte i if that bit of byte i of the plane is set
//   lookup(x, table)               table[x % 16] for x below 128
//   multiply16(x, y)               the low 16 bits of the products of 16-bit lanes
//   trits(x)                       x * 3 >> 8: the leading base-3 digit of x / 256
//   load_u8, load_i8, load_u4(p, shift)    16 bytes, or the nibbles at bit `shift` of them, as int32 lanes
//   add_where(lanes, mask, value)  likewise for int32 lanes
//   store_bytes(lanes, p)          16 int32 lanes from -128 to 127, as bytes
//   both16(lanes)                  each lane's low 16 bits in both of its halves
//   powers_of_two(lanes)           2^(lane - 128), lanes 0 to 255
//   halves_of_e4m3(lanes)          half the value of unsigned E4M3 bytes (exponent bias 7, bit 7 ignored, 0x7f is 0)
//   look_up_points<bits>(grid, indices, nibbles)
//                                  four words grid[index] of each row, each as one lane. The low halves of its bytes
//                                  are the four nibbles of the word, in the order 0, 2, 1, 3. Bit 7 of the bytes is
//                                  bit 3, 7, 11 or 15 of the word. Indices are as in RowPoints of unpack/grids.h
#pragma once

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The word from which a dot product starts: a factor times the sum of the activations.
enum class StartKind {
  none,   // the dot product starts at 0, and there is no word
  whole,  // an int32
  pairs,  // two int16 that wrap around: of columns 0 and 1 of each four, then of columns 2 and 3
};

/// The cost of unpacking 64 codes of a weight format.
enum class UnpackCost {
  low,     // one or two instructions
  medium,  // some more
  high,    // 32 columns have to be unpacked at once
};

/// The start of a dot product whose sums are int32: a base of BlockDot.
template <class Block>
struct Int32Start {
  static constexpr StartKind kStart = Block::kMins > 0 ? StartKind::none : StartKind::whole;
  static constexpr int kFactor = -Block::kOffset;
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE

#if defined(TESSERA_ISA_avx512)
#include "tessera/cpu/kernels/int8_dot_avx512.h"
#elif defined(TESSERA_ISA_avxvnni)
#include "tessera/cpu/kernels/int8_sums_avxvnni.h"
#elif defined(TESSERA_ISA_avx2)
#include "tessera/cpu/kernels/int8_sums_avx2.h"
#else
#include "tessera/cpu/kernels/int8_dot_scalar.h"
#endif

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

#if defined(TESSERA_ISA_TILES)
inline constexpr bool kHasTileUnit = true;
inline constexpr int kTokenTile = 16;
inline constexpr int kPanelTokens = kInt8Tokens;  // the unit multiplies more tokens
#else
inline constexpr bool kHasTileUnit = false;
inline constexpr int kTokenTile = kInt8Tokens;
inline constexpr int kPanelTokens = kInt8PanelTokens;
#endif

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
