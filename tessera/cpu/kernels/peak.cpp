// Measures the machine's peak rates with this instruction set. Benchmarks report kernels relative to them.
#include "tessera/cpu/kernels/hints.h"
#include "tessera/cpu/kernels/int8_dot.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

// Independent chains of 16 lanes: enough to hide the latency, few enough to stay in registers.
#if defined(TESSERA_ISA_avx512)
constexpr int kF32Chains = 16;
#elif defined(TESSERA_ISA_avx2)
constexpr int kInt8Chains = 3, kF32Chains = 6;
#else
constexpr int kInt8Chains = 2, kF32Chains = 3;
#endif

template <class T>
void use(const T& value) {
  const T copy = value;
  __asm__ volatile("" : : "m"(copy));
}

}  // namespace

#if defined(TESSERA_ISA_avx512)

/// n rounds of int8 dot products with operands in registers, in assembly. For the same loop in intrinsics GCC 12 emits
/// register copies and is 3 to 25% slower. A peak that is too low would overrate every kernel measured against it.
int64_t peak_int8(int64_t n) {
  for (int64_t round = 0; round < n; ++round)
    __asm__ volatile(
        "vpdpbusd %%zmm12, %%zmm13, %%zmm0\n vpdpbusd %%zmm12, %%zmm13, %%zmm1\n"
        "vpdpbusd %%zmm12, %%zmm13, %%zmm2\n vpdpbusd %%zmm12, %%zmm13, %%zmm3\n"
        "vpdpbusd %%zmm12, %%zmm13, %%zmm4\n vpdpbusd %%zmm12, %%zmm13, %%zmm5\n"
        "vpdpbusd %%zmm12, %%zmm13, %%zmm6\n vpdpbusd %%zmm12, %%zmm13, %%zmm7\n"
        "vpdpbusd %%zmm12, %%zmm13, %%zmm8\n vpdpbusd %%zmm12, %%zmm13, %%zmm9\n"
        "vpdpbusd %%zmm12, %%zmm13, %%zmm10\n vpdpbusd %%zmm12, %%zmm13, %%zmm11"
        :
        :
        : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11");
  return n * 12 * 64;
}

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

/// n rounds of int8 dot products with operands in registers, on four-bit codes (the cheapest form).
int64_t peak_int8(int64_t n) {
  uint8_t bytes[64];
  for (int i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(i % 15);
  __asm__ volatile("" : "+m"(bytes));
  const U8x64 codes = U8x64::load(bytes);
  I8x4 a = I8x4::load(bytes);
  BlockDot<15> dot[kInt8Chains];
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
  for (int i = 0; i < kInt8Chains; ++i) use(dot[i].finish(bytes + 4 * i));
  return n * kInt8Chains * 64;
}

#endif

/// n rounds of float multiply-adds with operands in registers.
int64_t peak_f32(int64_t n) {
  const F32x16 one = F32x16::broadcast(1.0f);
  F32x16 sum[kF32Chains];
  TESSERA_UNROLL
  for (int i = 0; i < kF32Chains; ++i) sum[i] = F32x16::broadcast(static_cast<float>(i));
  for (int64_t round = 0; round < n; ++round) TESSERA_UNROLL
  for (int i = 0; i < kF32Chains; ++i) sum[i] = fma(one, one, sum[i]);
  TESSERA_UNROLL
  for (int i = 0; i < kF32Chains; ++i) use(sum[i]);
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
  for (int i = 0; i < kSums; ++i) use(sum[i]);
  return static_cast<int64_t>(n * kPiece);
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
