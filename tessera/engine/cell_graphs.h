// Graphs that move, read and write the cells of a session's KV caches. Moves are prepared once per group of a cache;
// their largest shape is part of the session's plan.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "tessera/cache/cell_access.h"
#include "tessera/models/model.h"
#include "tessera/sched/executor.h"

namespace tessera {

class CellGraphs final : public CellAccess {
 public:
  /// The model and the executor must outlive this.
  CellGraphs(const ModelInfo& model, Executor& executor) : model_(model), executor_(executor) {}

  /// The graphs of all moves in a cache, for reserving memory.
  Result<std::vector<Graph>> largest_graphs(const KvCache& cache) const;

  Result<> move(const KvCache& cache, size_t group, const CellMoves& moves) override;
  Result<> read(const KvCache& cache, int64_t layer, std::span<const int32_t> cells, std::span<std::byte> k,
                std::span<std::byte> v) override;
  Result<> write(const KvCache& cache, int64_t layer, std::span<const int32_t> cells, std::span<const std::byte> k,
                 std::span<const std::byte> v) override;

 private:
  enum class Rotation : uint8_t { none, by_delta };
  enum class Direction : uint8_t { read, write };
  // Moves cells in the layers of one group.
  struct Mover {
    std::unique_ptr<PreparedGraph> graph;
    Value from, to, delta;  // delta is absent without rotation
  };
  // Rows of some cells of one layer: outputs of the graph, or inputs that it stores.
  struct RowGraph {
    std::unique_ptr<PreparedGraph> graph;
    Value k, v;  // v is absent if the layer has none of its own
  };

  Result<Graph> move_graph(const KvCache& cache, size_t group, Rotation rotation, Mover& mover) const;
  Result<RowGraph> prepare_rows(const KvCache& cache, int64_t layer, std::span<const int32_t> cells,
                                Direction direction);

  const ModelInfo& model_;
  Executor& executor_;
  std::map<std::tuple<const KvCache*, size_t, Rotation>, Mover> movers_;  // by cache and group
};

}  // namespace tessera
