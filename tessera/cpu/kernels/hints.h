// Hints to the compiler and the caches. Used by matmul_int8.h, matmul_float.h, peak.cpp and peak_integers.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Fully unrolls the loop over a tile that follows, so that the arrays of the tile become registers.
#define TESSERA_UNROLL _Pragma("GCC unroll 16")

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// The prefetch distance for weights: about the bytes that one core has in flight at full memory bandwidth.
inline constexpr size_t kPrefetchBytes = 4096;

/// Prefetches the cache lines of `bytes` bytes that start `distance` bytes after p. They may be past the end of the
/// data. Always inlined, because GCC 12 drops calls of a separate function that has no visible effect.
[[gnu::always_inline]] inline void prefetch_ahead(const void* p, size_t distance, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p) + distance;
  TESSERA_UNROLL
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(address + i));
}

/// Makes the compiler compute a value that nothing reads.
template <class T>
inline void use_value(const T& value) {
  const T copy = value;
  __asm__ volatile("" : : "m"(copy));
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
