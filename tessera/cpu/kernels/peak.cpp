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
