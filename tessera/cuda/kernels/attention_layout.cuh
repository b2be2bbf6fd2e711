// The shapes of the kernels of attention, for the kernels and for ops/attention.cpp.
#pragma once

#include <cstdint>

// Functions that the host and the device call.
#ifdef __CUDACC__
#define TESSERA_SHARED_CODE __host__ __device__
#else
#define TESSERA_SHARED_CODE
#endif

namespace tessera::cuda {

/// A split is a range of blocks that is summed from a fresh state; the results are merged in order. kSplitBlocks is
/// that of attention_precise.
constexpr uint32_t kSplitBlocks = 8;

/// Splits of the flash kernels. Different blocks of threads sum them up at the same time, so short ones make few tokens
/// fast. In long contexts there are many anyway, and each takes memory for its result: they become longer.
TESSERA_SHARED_CODE constexpr uint32_t flash_split_of(uint32_t block) {
  return block < 64 ? block / 2 : block < 256 ? 32 + (block - 64) / 4 : 80 + (block - 256) / 8;
}
/// The first block of a split.
TESSERA_SHARED_CODE constexpr uint32_t flash_split_begin(uint32_t split) {
  return split < 32 ? 2 * split : split < 80 ? 64 + 4 * (split - 32) : 256 + 8 * (split - 80);
}

/// Query rows of a block of attention_few_<dim>: the height of an mma.
constexpr uint32_t kFewRows = 16, kWarpThreads = 32;

/// A block of the cache, and what is seen of it by any row of a tile.
struct FlashEntry {
  uint32_t logical;  // and kFull if all rows see all of it
  uint32_t physical, seen[2];
};
constexpr uint32_t kFull = 1u << 31;
constexpr uint32_t kListed = 64;  // blocks of which a tile knows the entry at a time

/// Shared memory of a tile.
struct FlashRoom {
  FlashEntry entries[kListed];
  uint32_t spans[8][4];  // by warp; afterwards the tile's is in [0]
  uint32_t is_listed[2];
  uint32_t is_left;
};
/// What warps that share rows exchange: rounded weights as operands of an mma by 16 keys; maxima by warp, then by row.
struct FlashExchange {
  uint32_t weights[4][kWarpThreads][4];
  float highest[4][kFewRows];
};

/// The shape of a kernel for heads of up to `dim` elements.
struct FlashShape {
  uint32_t dim;
  uint32_t row_warps;  // each computes row_tiles times 16 rows of queries
  uint32_t row_tiles;  // two halve the reads of shared memory, if registers suffice
  uint32_t key_warps;  // they share their rows: each computes a part of the keys, then a part of the values
  uint32_t n_slots;    // of a ring of halves of blocks, 64 rows of K or V each

  TESSERA_SHARED_CODE constexpr uint32_t n_rows() const { return 16 * row_warps * row_tiles; }
  TESSERA_SHARED_CODE constexpr uint32_t n_threads() const { return kWarpThreads * row_warps * key_warps; }
  TESSERA_SHARED_CODE constexpr uint32_t slot_bytes() const { return 64 * 2 * dim; }
  /// The queries stay in registers unless the values of a warp already fill these.
  TESSERA_SHARED_CODE constexpr bool holds_query() const { return dim <= 128 || key_warps > 1; }

  // Shared memory: the ring, the values of earlier splits, queries, FlashExchange, FlashRoom.
  TESSERA_SHARED_CODE constexpr uint32_t totals_at() const { return n_slots * slot_bytes(); }
  TESSERA_SHARED_CODE constexpr uint32_t query_at() const { return totals_at() + n_rows() * dim * 4; }
  TESSERA_SHARED_CODE constexpr uint32_t exchange_at() const {
    return query_at() + (holds_query() ? 0 : n_rows() * dim * 2);
  }
  TESSERA_SHARED_CODE constexpr uint32_t room_at() const {
    return exchange_at() + (key_warps > 1 ? uint32_t{sizeof(FlashExchange)} : 0);
  }
  TESSERA_SHARED_CODE constexpr uint32_t shared_bytes() const { return room_at() + uint32_t{sizeof(FlashRoom)}; }
};

/// The shape of attention_flash_<dim>. A block has room in the 163 KiB of shared memory of sm_80.
TESSERA_SHARED_CODE constexpr FlashShape flash_shape(uint32_t dim) {
  return {.dim = dim,
          .row_warps = dim > 128 || dim <= 64 ? 4u : 8u,
          .row_tiles = dim <= 64 ? 2u : 1u,
          .key_warps = 1,
          .n_slots = dim > 128 ? 2u : 4u};
}
/// The shape of attention_few_<dim>: more slots, since memory is its limit. With 64 elements, all halves of a short
/// split are on their way at once.
TESSERA_SHARED_CODE constexpr FlashShape few_shape(uint32_t dim) {
  return {.dim = dim, .row_warps = 1, .row_tiles = 1, .key_warps = 4, .n_slots = dim > 128 ? 3u : 5u};
}

/// Bits of Params::variant of the flash kernels: splits of a token are divided among blocks; rows of K and of V are f16
/// and aligned to 16 bytes; only the tokens of tiles that attention_flash_<dim> left.
enum : uint32_t { kVariantSplits = 1, kVariantCopiesK = 2, kVariantCopiesV = 4, kVariantLeftTiles = 8 };

}  // namespace tessera::cuda
