// Dot products of unsigned weight codes with signed activations, sixteen rows of four columns at a time, for
// the kernels of one instruction set. Used by unpack/*.h and matmul_int8.h.
//
//   U8x64          64 codes: lane r is four consecutive columns of row r
//   I8x4           four activations of one token, in every lane
//   BlockDot<max>  the int32 sums of one 32-column block, exact for codes 0 to max and activations -127 to 127:
//                  start(seed), eight times add(codes, activations), then finish(seed) as floats. The sums are
//                  of code - kBias: the seed must bring the rest of the format's offset
//   kInt8Tokens, kInt8Panels   the largest tile that the registers hold
//   kInt8DecodePanels          panels of a tile of one token (more than kInt8Panels)
//   kInt8Unroll                how often its loop over a block's four vector pairs is unrolled
#pragma once

#include "tessera/cpu/kernels/simd.h"

#if defined(TESSERA_ISA_avx512)
#include "tessera/cpu/kernels/int8_dot_avx512.h"
#elif defined(TESSERA_ISA_avx2)
#include "tessera/cpu/kernels/int8_dot_avx2.h"
#else
#include "tessera/cpu/kernels/int8_dot_scalar.h"
#endif
