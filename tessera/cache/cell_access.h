// Access to the keys and values in the cells of a KV cache. A device keeps them in a layout of its own, so only a graph
// can read, write or move them. The cache folder knows no executor: the engine implements this interface
// (engine/cell_graphs.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/cache/paged.h"

namespace tessera {

class CellAccess {
 public:
  virtual ~CellAccess() = default;

  /// Moves cells in all layers of a group, and rotates K by moves.delta positions. Errors: those of running a graph.
  virtual Result<> move(const KvCache& cache, size_t group, const CellMoves& moves) = 0;

  /// Copies the rows of some cells of a layer to memory, or back, in the types of the cache.
  ///   k, v: cells.size() rows of KvCache::token_bytes(layer).k and .v bytes
  /// Errors: those of running a graph.
  virtual Result<> read(const KvCache& cache, int64_t layer, std::span<const int32_t> cells, std::span<std::byte> k,
                        std::span<std::byte> v) = 0;
  virtual Result<> write(const KvCache& cache, int64_t layer, std::span<const int32_t> cells,
                         std::span<const std::byte> k, std::span<const std::byte> v) = 0;
};

}  // namespace tessera
