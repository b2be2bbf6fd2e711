// Dot products of unsigned weight codes with signed activations, sixteen rows of four columns at a time, for
// the kernels of one instruction set. Used by unpack/*.h and matmul_int8.h.
//
//   U8x64          64 codes: lane r is four consecutive columns of row r
//   I8x4           four activations of one token, in every lane
//   BlockDot<max>  the int32 sums of up to 32 columns, exact for codes 0 to max and activations -127 to 127:
//                  start(seed), for each four columns add(codes, activations), then finish(seed) as floats. The
//                  sums are of code - kBias: the seed must bring the rest of the format's offset
//   kInt8Tokens, kInt8Panels   the largest tile that the registers hold
//   kInt8Unroll                how often its loop over a block's four vector pairs is unrolled
//
// What formats unpack with; n, bit and byte are the same for all lanes:
//   broadcast_u8(byte)             every byte the same
//   x & byte, and16(x, word), x | y, add, shift_left(x, n), shift_right(x, n)
//                                  bits of a byte that a shift moves into its neighbour are the caller's
//   low_nibbles, high_nibbles(p)   of 64 bytes
//   add_where(x, mask, byte)       adds byte where the mask's bit is set: bit i is byte i
//   add_if_bit(x, plane, bit, byte)    adds byte where that bit of the plane's byte is set
//   lookup(x, table)               table[x % 16] for x below 128
//   multiply16(x, y)               the low 16 bits of the products of 16-bit lanes
//   trits(x)                       x * 3 >> 8: the leading base-3 digit of x / 256
//   load_u8, load_i8, load_u4(p, shift)    16 bytes, or the nibbles at bit `shift` of them, as int32 lanes
//   add_where(lanes, mask, value)  the same for int32 lanes
//   both16(lanes)                  each lane's low 16 bits in both of its halves
//   powers_of_two(lanes)           2^(lane - 128), lanes 0 to 255
//   halves_of_e4m3(lanes)          half the value of unsigned E4M3 bytes (exponent bias 7, bit 7 ignored, 0x7f is 0)
//   look_up_points<bits>(grid, indices, nibbles)
//                                  four words of each row: grid[index], each as one lane whose bytes have its four
//                                  nibbles, in the order 0, 2, 1, 3, in their low halves, and in bit 7 only bits
//                                  3, 7, 11 and 15 of the word; indices as in RowPoints of unpack/grids.h
#pragma once

#include "tessera/cpu/kernels/simd.h"

#if defined(TESSERA_ISA_avx512)
#include "tessera/cpu/kernels/int8_dot_avx512.h"
#elif defined(TESSERA_ISA_avx2)
#include "tessera/cpu/kernels/int8_dot_avx2.h"
#else
#include "tessera/cpu/kernels/int8_dot_scalar.h"
#endif
