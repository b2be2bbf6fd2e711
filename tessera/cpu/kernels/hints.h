// Hints to the compiler and the caches. Used by kernels of products and by peak*.cpp.
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

/// The weights that a kernel multiplies after those in the cache: `bytes` of each of R panels, `stride` bytes apart.
/// Each of n_tiles tiles first calls prefetch(), so that memory delivers them while all tiles are computed. They may be
/// past the end of the data.
template <int R>
class NextWeights {
 public:
  NextWeights(const uint8_t* weights, size_t stride, size_t bytes, int64_t n_tiles)
      : address_(reinterpret_cast<uintptr_t>(weights)),
        stride_(stride),
        share_((bytes / static_cast<size_t>(n_tiles) + 63) / 64 * 64) {}

  /// Prefetches the next share to the second-level cache. The first-level cache is full of what tiles read.
  void prefetch() {
    for (int r = 0; r < R; ++r)
      for (size_t i = 0; i < share_; i += 64)
        __builtin_prefetch(reinterpret_cast<const void*>(address_ + static_cast<size_t>(r) * stride_ + i), 0, 2);
    address_ += share_;
  }

 private:
  uintptr_t address_;
  size_t stride_, share_;
};

/// Makes the compiler compute a value that nothing reads.
template <class T>
inline void use_value(const T& value) {
  const T copy = value;
  __asm__ volatile("" : : "m"(copy));
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
