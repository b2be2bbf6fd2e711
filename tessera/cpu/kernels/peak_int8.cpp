// Measures the peak rate of int8 dot products with this instruction set.
#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/int8_dot.h"
#include "tessera/cpu/kernels/table.h"
#if defined(TESSERA_ISA_TILES)
#include "tessera/cpu/kernels/tile_unit.h"
#endif

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

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

#if defined(TESSERA_ISA_avx512)
#define TESSERA_DOT(sum) "vpdpbusd %%zmm12, %%zmm13, %%zmm" #sum "\n"
constexpr int kDotProducts = 64;
#else
#define TESSERA_DOT(sum) "%{vex%} vpdpbusd %%ymm12, %%ymm13, %%ymm" #sum "\n"
constexpr int kDotProducts = 32;
#endif

/// n rounds of int8 dot products with operands in registers, in assembly. For the same loop in intrinsics GCC 12 emits
/// register copies and is 3 to 25% slower. A peak that is too low would overrate every kernel measured against it.
int64_t peak_int8(int64_t n) {
  for (int64_t round = 0; round < n; ++round)
    __asm__ volatile(TESSERA_DOT(0) TESSERA_DOT(1) TESSERA_DOT(2) TESSERA_DOT(3) TESSERA_DOT(4) TESSERA_DOT(5)
                         TESSERA_DOT(6) TESSERA_DOT(7) TESSERA_DOT(8) TESSERA_DOT(9) TESSERA_DOT(10) TESSERA_DOT(11)
                     :
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                       "xmm11");
  return n * 12 * kDotProducts;
}

#else

namespace {

// Independent chains of 16 lanes: enough to hide the latency, few enough to stay in registers.
#if defined(TESSERA_ISA_avx2)
constexpr int kChains = 3;
#else
constexpr int kChains = 2;
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
  BlockDot<FourBits> dot[kChains];
  TESSERA_UNROLL
  for (int i = 0; i < kChains; ++i) dot[i].start(bytes + 4 * i);
  for (int64_t round = 0; round < n; ++round) {
    TESSERA_UNROLL
    for (int i = 0; i < kChains; ++i) {
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
  for (int i = 0; i < kChains; ++i) use_value(dot[i].finish(bytes + 4 * i));
  return n * kChains * 64;
}

#endif

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
