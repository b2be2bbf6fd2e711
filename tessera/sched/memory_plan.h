// The layout of a graph's values in one compute buffer. A value lives from the node that computes it to its last
// reader. Values that do not live at the same time share bytes, and an element-wise result reuses the bytes of its
// operand. The plan is made before anything is allocated, and its total is exactly the allocated size.
#pragma once

#include <functional>
#include <vector>

#include "tessera/graph/node.h"

namespace tessera {

struct MemoryPlan {
  static constexpr size_t kElsewhere = SIZE_MAX;  // the value is in a tensor's own buffer

  std::vector<size_t> offsets;  // per node: bytes from the buffer's base, or kElsewhere
  size_t bytes = 0;             // the buffer's size

  /// For printing: the lifetime of each stored value, as [first, last] node of the graph.
  struct Lifetime {
    NodeId node;
    NodeId first;
    NodeId last;
    size_t bytes;
  };
  std::vector<Lifetime> lifetimes;
};

/// Plans the values that are not tensors and that `is_here` selects (empty: all). Inputs live from the start, because
/// they are filled before the run; outputs live to the end. Offsets are multiples of `alignment`. Errors: limit
/// (overflow).
Result<MemoryPlan> plan_memory(const Graph& graph, size_t alignment, const std::function<bool(NodeId)>& is_here = {});

}  // namespace tessera
