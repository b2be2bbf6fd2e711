// The operations of tile_unit.h in software, for tests on processors without AMX. Shapes that the instructions refuse
// end the process, as there.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/tile_config.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

struct TileRegisters {
  TileConfig config;
  bool is_configured = false;
  uint8_t rows[8][16][64];
};
inline thread_local TileRegisters tiles;

struct TileUnit {
  static void configure(const TileConfig& config) {
    require(config.palette == 1 && config.start_row == 0);
    for (int tile = 0; tile < 8; ++tile) require(config.n_rows[tile] <= 16 && config.row_bytes[tile] <= 64);
    tiles.config = config;
    tiles.is_configured = true;
    memset(tiles.rows, 0, sizeof tiles.rows);
  }
  static void release() { tiles.is_configured = false; }

  template <int kTile>
  static void clear() {
    require_shape(kTile);
    memset(tiles.rows[kTile], 0, sizeof tiles.rows[kTile]);
  }
  template <int kTile>
  static void load(const void* rows, size_t stride) {
    clear<kTile>();
    for (int row = 0; row < tiles.config.n_rows[kTile]; ++row)
      memcpy(tiles.rows[kTile][row], static_cast<const uint8_t*>(rows) + static_cast<size_t>(row) * stride,
             tiles.config.row_bytes[kTile]);
  }
  template <int kTile>
  static void store(void* rows, size_t stride) {
    require_shape(kTile);
    for (int row = 0; row < tiles.config.n_rows[kTile]; ++row)
      memcpy(static_cast<uint8_t*>(rows) + static_cast<size_t>(row) * stride, tiles.rows[kTile][row],
             tiles.config.row_bytes[kTile]);
  }
  template <int kSums, int kA, int kB>
  static void add_signed() {
    add<kSums, kA, kB>([](uint8_t code) { return static_cast<int32_t>(static_cast<int8_t>(code)); });
  }
  template <int kSums, int kA, int kB>
  static void add_unsigned() {
    add<kSums, kA, kB>([](uint8_t code) { return static_cast<int32_t>(code); });
  }

 private:
  static void require(bool holds) {
    if (!holds) __builtin_trap();
  }
  static void require_shape(int tile) {
    require(tiles.is_configured && tiles.config.n_rows[tile] > 0 && tiles.config.row_bytes[tile] > 0 &&
            tiles.config.row_bytes[tile] % 4 == 0);
  }

  // sums[m][n] += a[m][4k + i] * b[k][4n + i] for all k, and i from 0 to 3.
  template <int kSums, int kA, int kB, class CodeOfA>
  static void add(CodeOfA code_of_a) {
    require_shape(kSums);
    require_shape(kA);
    require_shape(kB);
    const TileConfig& config = tiles.config;
    require(config.n_rows[kSums] == config.n_rows[kA] && config.row_bytes[kSums] == config.row_bytes[kB] &&
            config.row_bytes[kA] == 4 * config.n_rows[kB]);
    for (int m = 0; m < config.n_rows[kSums]; ++m)
      for (int n = 0; n < config.row_bytes[kSums] / 4; ++n) {
        int32_t sum;
        memcpy(&sum, &tiles.rows[kSums][m][4 * n], 4);
        for (int k = 0; k < config.n_rows[kB]; ++k)
          for (int i = 0; i < 4; ++i)
            sum += code_of_a(tiles.rows[kA][m][4 * k + i]) * static_cast<int8_t>(tiles.rows[kB][k][4 * n + i]);
        memcpy(&tiles.rows[kSums][m][4 * n], &sum, 4);
      }
  }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
