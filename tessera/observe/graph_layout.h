// Positions of a schedule's nodes in a drawing: blocks of one layer and one slice each, in the order of execution, and
// in each block rows by depth. The same graph always gives the same drawing. Time grows with nodes and edges.
#pragma once

#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/sched/schedule.h"

namespace tessera::observe {

struct GraphLayout {
  // Sizes of a node's box and gaps between boxes, in the drawing's units.
  static constexpr double kNodeWidth = 168, kNodeHeight = 50, kGapX = 18, kGapY = 26;

  struct Block {
    int layer = -1;  // see layers_of()
    int slice = -1;  // in the schedule; -1: leaves before or between slices
    std::vector<NodeId> nodes;
    double width = 0, height = 0;
  };
  struct Place {
    int block = -1;       // -1: not drawn (leaves, views)
    double x = 0, y = 0;  // the box's upper left corner within its block
  };
  // An edge from an operand to its reader. If there are rows between them in their block, the edge passes through the
  // bends and from each one straight down to the end of the row.
  struct Edge {
    NodeId from, to;
    std::vector<std::pair<double, double>> bends;  // within the block
  };
  std::vector<Block> blocks;
  std::vector<Place> places;  // by node of the schedule's graph
  std::vector<Edge> edges;

  bool is_drawn(NodeId id) const { return places[to_size(id)].block >= 0; }
};

GraphLayout layout_graph(const Schedule& schedule);

/// Returns the node drawn in place of a source: the viewed node for a view, or kNoNode if that is a leaf.
NodeId drawn_source(const Graph& graph, NodeId source);

}  // namespace tessera::observe
