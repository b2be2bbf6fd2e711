// Loops that show the peak rates of a device. y: where results go, so that nothing is optimized away.
#include "tessera/cuda/kernels/device.cuh"

namespace tessera::cuda {

// Multiply-adds per loop and thread, as in peaks.cpp.
constexpr uint32_t kChains = 8, kSteps = 8;

/// Chains of f32. u[0]: loops.
TESSERA_KERNEL(peak_f32, 256) {
  float chains[kChains];
  for (uint32_t c = 0; c < kChains; ++c) chains[c] = static_cast<float>(lane() + c);
  for (uint32_t loop = 0; loop < step.u[0]; ++loop)
#pragma unroll
    for (uint32_t s = 0; s < kSteps; ++s)
#pragma unroll
      for (uint32_t c = 0; c < kChains; ++c) chains[c] = fmaf(chains[c], 0.9999f, 0.5f);
  float sum = 0;
  for (uint32_t c = 0; c < kChains; ++c) sum += chains[c];
  floats(step.y.data)[group_of(step) * n_lanes() + lane()] = sum;
}

/// Chains of matrix products of f16. u[0]: loops.
TESSERA_KERNEL(peak_halves, 256) {
  float chains[kChains][4] = {};
  const uint32_t a[4] = {0x3c003c00u + lane(), 0x38003800u, 0x34003400u, 0x30003000u};
  for (uint32_t loop = 0; loop < step.u[0]; ++loop)
#pragma unroll
    for (uint32_t c = 0; c < kChains; ++c) multiply_f16(chains[c], a, 0x3c003800u, 0x30003400u);
  float sum = 0;
  for (uint32_t c = 0; c < kChains; ++c)
    for (uint32_t i = 0; i < 4; ++i) sum += chains[c][i];
  floats(step.y.data)[group_of(step) * n_lanes() + lane()] = sum;
}

/// Reads memory once. u[0]: 16-byte words per thread.
TESSERA_KERNEL(peak_read, 256) {
  const uint64_t stride = uint64_t{step.n_groups} * n_lanes();
  const Word4* from = at<const Word4>(step.x[0].data) + (uint64_t{group_of(step)} * n_lanes() + lane());
  uint32_t sum = 0;
#pragma unroll 8
  for (uint32_t i = 0; i < step.u[0]; ++i) {
    const Word4 v = load_weights16(from + i * stride);
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  words(step.y.data)[group_of(step) * n_lanes() + lane()] = sum;
}

}  // namespace tessera::cuda
