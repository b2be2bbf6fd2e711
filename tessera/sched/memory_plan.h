// Where the values of a graph lie in one compute buffer. A value lives from the node that makes it to its last reader;
// values that do not live at the same time share bytes, and an element-wise result takes its operand's place.
// The plan is made before anything is allocated, and its total is what is then allocated.
#pragma once

#include <functional>
#include <vector>

#include "tessera/graph/node.h"

namespace tessera {

struct MemoryPlan {
  static constexpr size_t kElsewhere = SIZE_MAX;  // the value lies in a tensor's own buffer

  std::vector<size_t> offsets;  // per node: bytes from the buffer's base, or kElsewhere
  size_t bytes = 0;             // the buffer's size

  /// For printing: when each stored value is live, as [first, last] node of the graph.
  struct Lifetime {
    NodeId node;
    NodeId first;
    NodeId last;
    size_t bytes;
  };
  std::vector<Lifetime> lifetimes;
};

/// Plans the values that are not tensors and that `is_here` names (empty: all). Inputs live from the start (they are
/// filled before the run), outputs to the end. Offsets are multiples of `alignment`. Errors: limit (overflow).
Result<MemoryPlan> plan_memory(const Graph& graph, size_t alignment, const std::function<bool(NodeId)>& is_here = {});

}  // namespace tessera
