// Measures the machine's peak rates in floats and in reading with this instruction set. Benchmarks report kernels
// relative to them.
#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

// Independent chains of 16 lanes: enough to hide the latency, few enough to stay in registers.
#if defined(TESSERA_ISA_avx512)
constexpr int kF32Chains = 16;
#elif defined(TESSERA_ISA_avx2)
constexpr int kF32Chains = 6;
#else
constexpr int kF32Chains = 3;
#endif

}  // namespace

#if defined(TESSERA_ISA_avx512)

/// n rounds of bf16 dot products with operands in registers, in assembly. Not every CPU with AVX-512 has these
/// instructions, so they are not enabled for the compiler, which could use them elsewhere.
int64_t peak_bf16(int64_t n) {
  for (int64_t round = 0; round < n; ++round)
    __asm__ volatile(
        "vdpbf16ps %%zmm12, %%zmm13, %%zmm0\n vdpbf16ps %%zmm12, %%zmm13, %%zmm1\n"
        "vdpbf16ps %%zmm12, %%zmm13, %%zmm2\n vdpbf16ps %%zmm12, %%zmm13, %%zmm3\n"
        "vdpbf16ps %%zmm12, %%zmm13, %%zmm4\n vdpbf16ps %%zmm12, %%zmm13, %%zmm5\n"
        "vdpbf16ps %%zmm12, %%zmm13, %%zmm6\n vdpbf16ps %%zmm12, %%zmm13, %%zmm7\n"
        "vdpbf16ps %%zmm12, %%zmm13, %%zmm8\n vdpbf16ps %%zmm12, %%zmm13, %%zmm9\n"
        "vdpbf16ps %%zmm12, %%zmm13, %%zmm10\n vdpbf16ps %%zmm12, %%zmm13, %%zmm11"
        :
        :
        : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11");
  return n * 12 * 32;
}

#else

int64_t peak_bf16(int64_t) { return 0; }

#endif

/// n rounds of float multiply-adds with operands in registers.
int64_t peak_f32(int64_t n) {
  // The compiler must not know that lanes are equal: it would compute equal halves of a sum once.
  float start[kLanes + kF32Chains] = {};
  __asm__ volatile("" : "+m"(start));
  const F32x16 one = F32x16::broadcast(1.0f);
  F32x16 sum[kF32Chains];
  TESSERA_UNROLL
  for (int i = 0; i < kF32Chains; ++i) sum[i] = F32x16::load(start + i);
  for (int64_t round = 0; round < n; ++round) TESSERA_UNROLL
  for (int i = 0; i < kF32Chains; ++i) sum[i] = fma(one, one, sum[i]);
  TESSERA_UNROLL
  for (int i = 0; i < kF32Chains; ++i) use_value(sum[i]);
  return n * kF32Chains * 16;
}

/// Reads all whole 256-byte pieces of the data once, in order. Returns the bytes read.
int64_t peak_read(const void* data, size_t bytes) {
  constexpr int kSums = 4;
  constexpr size_t kPiece = kSums * kLanes * sizeof(float);
  F32x16 sum[kSums];
  TESSERA_UNROLL
  for (int i = 0; i < kSums; ++i) sum[i] = F32x16::zero();
  const auto* p = static_cast<const float*>(data);
  const size_t n = bytes / kPiece;
  for (size_t piece = 0; piece < n; ++piece, p += kSums * kLanes) {
    prefetch_ahead(p, kPrefetchBytes, kPiece);
    TESSERA_UNROLL
    for (int i = 0; i < kSums; ++i) sum[i] = add(sum[i], F32x16::load(p + kLanes * i));
  }
  TESSERA_UNROLL
  for (int i = 0; i < kSums; ++i) use_value(sum[i]);
  return static_cast<int64_t>(n * kPiece);
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
