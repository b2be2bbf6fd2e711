// Measures the peak rates of int8 and int16 dot products with this instruction set.
#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/int8_dot.h"
#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#if defined(TESSERA_ISA_TILES)
#include "tessera/cpu/kernels/tile_unit.h"
#endif

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

#if defined(TESSERA_ISA_avx512) || defined(TESSERA_ISA_avxvnni)

// Loops in assembly, with operands in registers. For the same loop in intrinsics GCC 12 emits register copies and is 3
// to 25% slower. A peak that is too low would overrate every kernel measured against it.
#if defined(TESSERA_ISA_avx512)
#define TESSERA_DOT(instruction, sum) instruction " %%zmm12, %%zmm13, %%zmm" #sum "\n"
constexpr int kVectorBytes = 64;
#else
#define TESSERA_DOT(instruction, sum) "%{vex%} " instruction " %%ymm12, %%ymm13, %%ymm" #sum "\n"
constexpr int kVectorBytes = 32;
#endif
#define TESSERA_DOTS(instruction)                                                                                    \
  __asm__ volatile(TESSERA_DOT(instruction, 0) TESSERA_DOT(instruction, 1) TESSERA_DOT(instruction, 2)               \
                       TESSERA_DOT(instruction, 3) TESSERA_DOT(instruction, 4) TESSERA_DOT(instruction, 5)           \
                           TESSERA_DOT(instruction, 6) TESSERA_DOT(instruction, 7) TESSERA_DOT(instruction, 8)       \
                               TESSERA_DOT(instruction, 9) TESSERA_DOT(instruction, 10) TESSERA_DOT(instruction, 11) \
                   :                                                                                                 \
                   :                                                                                                 \
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11")

/// n rounds of int16 dot products.
int64_t peak_int16(int64_t n) {
  for (int64_t round = 0; round < n; ++round) TESSERA_DOTS("vpdpwssd");
  return n * 12 * kVectorBytes / 2;
}

#else

/// n rounds of int16 dot products.
int64_t peak_int16(int64_t n) {
#if defined(TESSERA_ISA_avx2)
  constexpr int kChains = 6;
#else
  constexpr int kChains = 3;
#endif
  int32_t words[16];
  for (int i = 0; i < 16; ++i) words[i] = i;
  __asm__ volatile("" : "+m"(words));
  I32x16 sum[kChains], a = I32x16::load(words);
  TESSERA_UNROLL
  for (int i = 0; i < kChains; ++i) sum[i] = a;
  for (int64_t round = 0; round < n; ++round) {
    TESSERA_UNROLL
    for (int i = 0; i < kChains; ++i) {
      // Makes `a` opaque to the compiler, so that its product is not computed only once for all chains and rounds.
#if defined(TESSERA_ISA_avx2)
      __asm__ volatile("" : "+x"(a.lo), "+x"(a.hi));
#else
      __asm__ volatile("" : "+m"(a));
#endif
      sum[i] = add_pairs(sum[i], a, a);
    }
  }
  TESSERA_UNROLL
  for (int i = 0; i < kChains; ++i) use_value(sum[i]);
  return n * kChains * 32;
}

#endif

#if defined(TESSERA_ISA_TILES)

/// n rounds of products of full tiles in registers.
int64_t peak_int8(int64_t n) {
  constexpr int kSums = 4, kA = 4, kB = 5;
#if defined(TESSERA_ISA_amxmodel)
  constexpr int64_t kMost = 4096;  // software takes some ten thousand times as long
  n = n < kMost ? n : kMost;
#endif
  TileConfig config;
  for (int tile = 0; tile <= kB; ++tile) config.set(tile, 16, 64);
  TileUnit::configure(config);  // with all tiles 0
  for (int64_t round = 0; round < n; ++round) {
    TileUnit::add_signed<0, kA, kB>();
    TileUnit::add_signed<1, kA, kB>();
    TileUnit::add_signed<2, kA, kB>();
    TileUnit::add_signed<3, kA, kB>();
  }
  TileUnit::release();
  return n * kSums * 16 * 16 * 64;
}

#elif defined(TESSERA_ISA_avx512) || defined(TESSERA_ISA_avxvnni)

/// n rounds of int8 dot products.
int64_t peak_int8(int64_t n) {
  for (int64_t round = 0; round < n; ++round) TESSERA_DOTS("vpdpbusd");
  return n * 12 * kVectorBytes;
}

#else

namespace {

// Independent chains of 16 lanes: enough to hide the latency, few enough to stay in registers.
#if defined(TESSERA_ISA_avx2)
constexpr int kInt8Chains = 3;
#else
constexpr int kInt8Chains = 2;
#endif

/// The format with the cheapest dot products.
struct FourBits {
  static constexpr int kMaxCode = 15, kOffset = 0, kScales = 1, kMins = 1;
};

}  // namespace

/// n rounds of int8 dot products with operands in registers, on four-bit codes.
int64_t peak_int8(int64_t n) {
  uint8_t bytes[64];
  for (int i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(i % 15);
  __asm__ volatile("" : "+m"(bytes));
  const U8x64 codes = U8x64::load(bytes);
  I8x4 a = I8x4::load(bytes);
  BlockDot<FourBits> dot[kInt8Chains];
  TESSERA_UNROLL
  for (int i = 0; i < kInt8Chains; ++i) dot[i].start(bytes + 4 * i);
  for (int64_t round = 0; round < n; ++round) {
    TESSERA_UNROLL
    for (int i = 0; i < kInt8Chains; ++i) {
      // Makes `a` opaque to the compiler, so that its product is not computed only once for all rounds.
#if defined(TESSERA_ISA_avx2)
      __asm__ volatile("" : "+x"(a.v));
#else
      __asm__ volatile("" : "+m"(a.v));
#endif
      dot[i].add(codes, a);
    }
  }
  TESSERA_UNROLL
  for (int i = 0; i < kInt8Chains; ++i) use_value(dot[i].finish(bytes + 4 * i));
  return n * kInt8Chains * 64;
}

#endif

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
