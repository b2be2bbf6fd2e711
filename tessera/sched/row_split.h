// Products with matrices whose rows lie in several memories (Tensor::row_parts): each part is multiplied where it lies,
// and the results are put together. A row's product is the same wherever it is computed, so the bits are too.
#pragma once

#include <optional>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/graph/node.h"

namespace tessera {

struct RowSplit {
  Graph graph;
  std::vector<NodeId> ids;    // by node of the given graph: its number in this; of a split matrix: its first part's
  std::vector<NodeId> given;  // by node of this graph: its number in the given one, kNoNode for parts
};

/// The graph with products of parts; nothing where no matrix is split. Products that read the same x become neighbours,
/// parts outside the memory of Tensor::buffer_type first: so devices can multiply at the same time.
/// Errors: unsupported (something else than a product reads a matrix that is split).
Result<std::optional<RowSplit>> split_rows(const Graph& graph);

}  // namespace tessera
