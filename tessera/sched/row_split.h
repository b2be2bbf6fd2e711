// Products with matrices whose rows are in several memories (Tensor::row_parts). Each part is multiplied on its own
// device, and the results are concatenated. The product of a row is the same on each device, so the bits are too.
#pragma once

#include <optional>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/graph/node.h"

namespace tessera {

struct RowSplit {
  Graph graph;
  std::vector<NodeId> ids;    // by node of the given graph: its number in `graph`; of a split matrix: of its first part
  std::vector<NodeId> given;  // by node of `graph`: its number in the given one, kNoNode for parts
};

/// Replaces products with split matrices by products of parts; no value if no matrix is split. Products that read the
/// same x become neighbours, first the parts outside the memory of Tensor::buffer_type, so that devices can multiply at
/// the same time. Errors: unsupported (a node that is no product reads a split matrix).
Result<std::optional<RowSplit>> split_rows(const Graph& graph);

}  // namespace tessera
