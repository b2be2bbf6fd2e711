// The operations of tile_unit.h as AMX instructions. They are written in assembly because GCC 12's intrinsics do not
// tell the compiler that a load of a tile reads memory. The compiler itself never uses a tile register.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tessera/cpu/kernels/tile_config.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct TileUnit {
  static void configure(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" : : "m"(config)); }
  static void release() { __asm__ volatile("tilerelease"); }

  template <int kTile>
  static void clear() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static void load(const void* rows, size_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void store(void* rows, size_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kSums, int kA, int kB>
  static void add_signed() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
  }
  template <int kSums, int kA, int kB>
  static void add_unsigned() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
  }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
