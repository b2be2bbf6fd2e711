// Where the nodes of a schedule stand in a drawing: blocks of one layer and one slice each, in the order in which they
// run, and in each block rows by depth. The same graph always gives the same drawing; time grows with nodes and edges.
#pragma once

#include <utility>
#include <vector>

#include "tessera/sched/schedule.h"

namespace tessera::observe {

struct GraphLayout {
  // Of a node's box and between boxes, in the drawing's units.
  static constexpr double kNodeWidth = 168, kNodeHeight = 50, kGapX = 18, kGapY = 26;

  struct Block {
    int layer = -1;  // see layers_of()
    int slice = -1;  // in the schedule; -1: leaves that stand before or between slices
    std::vector<NodeId> nodes;
    double width = 0, height = 0;
  };
  struct Place {
    int block = -1;       // -1: not drawn (leaves, views)
    double x = 0, y = 0;  // the box's upper left corner within its block
  };
  // From what a node reads to the node. Where rows lie between them in their block, the edge passes through these
  // points and on down to the end of each row.
  struct Edge {
    NodeId from, to;
    std::vector<std::pair<double, double>> bends;  // within the block
  };
  std::vector<Block> blocks;
  std::vector<Place> places;  // by node of the schedule's graph
  std::vector<Edge> edges;

  bool is_drawn(NodeId id) const { return places[static_cast<size_t>(id)].block >= 0; }
};

GraphLayout layout_graph(const Schedule& schedule);

/// The node that a drawing has in place of a source: what a view is of; kNoNode where that is a leaf.
NodeId drawn_source(const Graph& graph, NodeId source);

}  // namespace tessera::observe
