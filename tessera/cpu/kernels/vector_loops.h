// Rows whose length is no multiple of a vector's: vectors with fewer elements than lanes, and loops over them.
#pragma once

#include <stdint.h>

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// Elements of the vector that begins at element i of n.
inline int lanes_left(int64_t n, int64_t i) { return static_cast<int>(n - i < kLanes ? n - i : kLanes); }

/// The first `count` elements at p, zeros behind them.
inline F32x16 load_up_to(const float* p, int count) {
  return count == kLanes ? F32x16::load(p) : F32x16::load_partial(p, count);
}

inline void store_up_to(F32x16 v, float* p, int count) {
  if (count == kLanes) return v.store(p);
  v.store_partial(p, count);
}

/// piece(i, count) for each vector of n elements.
template <class Piece>
inline void for_vectors(int64_t n, Piece piece) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) piece(i, kLanes);
  if (i < n) piece(i, lanes_left(n, i));
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
