// Hints to the compiler and the caches. Used by matmul_int8.h, matmul_float.h and peak.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Before a loop over a tile: unrolls it whole, so that the tile's arrays become registers.
#define TESSERA_UNROLL _Pragma("GCC unroll 16")

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// How far ahead of the weights in use: about what one core keeps in flight at full memory bandwidth.
inline constexpr size_t kPrefetchBytes = 4096;

/// Asks for the lines of `bytes` bytes that start `distance` after p; they may lie past the end of the data.
/// Always inlined: as a function of its own GCC 12 finds that it has no effect, and drops the calls.
[[gnu::always_inline]] inline void prefetch_ahead(const void* p, size_t distance, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p) + distance;
  TESSERA_UNROLL
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(address + i));
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
