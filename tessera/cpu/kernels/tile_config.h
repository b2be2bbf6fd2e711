// The shapes of AMX tile registers, in the form of the instruction ldtilecfg (Intel, Software Developer's Manual,
// volume 1, chapter 18: palette 1).
#pragma once

#include <stdint.h>

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  // at most 64
  uint8_t n_rows[16] = {};      // at most 16

  void set(int tile, int rows, int bytes) {
    n_rows[tile] = static_cast<uint8_t>(rows);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
