// Loops and sums over rows whose length is not a multiple of the vector length: the last vector has fewer elements than
// lanes.
#pragma once

#include <stdint.h>

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The number of elements in the vector that begins at element i of n.
inline int lanes_left(int64_t n, int64_t i) { return static_cast<int>(n - i < kLanes ? n - i : kLanes); }

/// Loads the first `count` elements at p, with zeros after them.
inline F32x16 load_up_to(const float* p, int count) {
  return count == kLanes ? F32x16::load(p) : F32x16::load_partial(p, count);
}

inline void store_up_to(F32x16 v, float* p, int count) {
  if (count == kLanes) return v.store(p);
  v.store_partial(p, count);
}

/// Calls piece(i, count) for each vector of n elements.
template <class Piece>
inline void for_vectors(int64_t n, Piece piece) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) piece(i, kLanes);
  if (i < n) piece(i, lanes_left(n, i));
}

/// A sum over n elements. step(accumulator, i, count) adds `count` elements from i on. Vector v is added to accumulator
/// v % 4.
template <class Step>
inline float four_way_sum(int64_t n, Step step) {
  F32x16 acc[4] = {F32x16::zero(), F32x16::zero(), F32x16::zero(), F32x16::zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int a = 0; a < 4; ++a) acc[a] = step(acc[a], i + a * kLanes, kLanes);
  for (int a = 0; i < n; ++a, i += kLanes) acc[a] = step(acc[a], i, lanes_left(n, i));
  return reduce_add(add(add(acc[0], acc[1]), add(acc[2], acc[3])));
}

/// The largest of n elements; -inf if n is 0.
inline float max_of(const float* x, int64_t n) {
  const F32x16 lowest = F32x16::broadcast(-__builtin_inff());
  F32x16 m = lowest;
  for_vectors(n, [&](int64_t i, int count) {
    const F32x16 v = load_up_to(x + i, count);
    m = max(m, count == kLanes ? v : select_first(count, v, lowest));
  });
  return reduce_max(m);
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
