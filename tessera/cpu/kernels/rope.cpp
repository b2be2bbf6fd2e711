// Rotary position embedding.
//
// Products are F32x16 operations on separate lanes. For scalar code a * c - b * s, a * s + b * c over interleaved
// pairs, GCC 12 emits vfmaddsub even with -ffp-contract=off, and the results of instruction sets would differ.
#include <string.h>

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

struct Pairs {
  F32x16 first, second;
};

/// Loads `count` (even, <= 32) floats as adjacent pairs, with zeros after them.
Pairs load_pairs(const float* x, int count) {
  float both[2 * kLanes] = {}, first[kLanes], second[kLanes];
  memcpy(both, x, sizeof(float) * static_cast<size_t>(count));
  for (int i = 0; i < kLanes; ++i) {
    first[i] = both[2 * i];
    second[i] = both[2 * i + 1];
  }
  return {F32x16::load(first), F32x16::load(second)};
}

}  // namespace

void rope_adjacent(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out) {
  // a c - b s is computed as a c + b (-s), with the same bits, so that both lanes of a pair add.
  float signs[kLanes];
  for (int i = 0; i < kLanes; ++i) signs[i] = i % 2 == 0 ? -1.0f : 1.0f;
  const F32x16 sign = F32x16::load(signs);
  for (int64_t begin = 0; begin < n_rot; begin += kLanes) {
    const auto count = static_cast<int>(n_rot - begin < kLanes ? n_rot - begin : kLanes);
    const F32x16 v = F32x16::load_partial(x + begin, count), t = F32x16::load_partial(cos_sin + begin, count);
    const F32x16 rotated = add(mul(v, even_of_pairs(t)), mul(swap_pairs(v), mul(odd_of_pairs(t), sign)));
    rotated.store_partial(out + begin, count);
  }
  if (n > n_rot) memmove(out + n_rot, x + n_rot, sizeof(float) * static_cast<size_t>(n - n_rot));
}

void rope_halves(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out) {
  const int64_t half = n_rot / 2;
  for (int64_t begin = 0; begin < half; begin += kLanes) {
    const auto count = static_cast<int>(half - begin < kLanes ? half - begin : kLanes);
    const auto [c, s] = load_pairs(cos_sin + 2 * begin, 2 * count);
    const F32x16 a = F32x16::load_partial(x + begin, count), b = F32x16::load_partial(x + half + begin, count);
    sub(mul(a, c), mul(b, s)).store_partial(out + begin, count);
    add(mul(a, s), mul(b, c)).store_partial(out + half + begin, count);
  }
  if (n > n_rot) memmove(out + n_rot, x + n_rot, sizeof(float) * static_cast<size_t>(n - n_rot));
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
