// A graph over several devices: its nodes in their order, cut into slices of one device each, with copies of what a
// slice reads from elsewhere in front of it. What is copied to a device stays there for later slices, but for what
// nodes change in place, which each slice copies anew. A slice waits for those whose values it copies, not for all
// before it: so devices that share no memory may run at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/sched/assign.h"

namespace tessera {

/// Nodes [begin, end) of the schedule's graph: copies first, then what the device runs as one. Leaves may lie between.
struct Slice {
  int device = 0;
  NodeId begin = 0, end = 0;
  std::vector<NodeId> copies;  // from the device of each one's source
  NodeId watched = kNoNode;    // of the given graph: its last node, if that is watched
  // By device: how many of its slices must have ended, and how many must have made their copies (after that their
  // sources may be overwritten), before this one begins. Those of one device run in their order.
  std::vector<uint32_t> ended{}, copied{};
};

/// A tensor as it is when a run begins, for one device.
struct Snapshot {
  NodeId input = kNoNode;  // of the schedule's graph: stands for the tensor where the device reads it
  const Tensor* tensor = nullptr;
};

struct Schedule {
  Graph graph;                 // the given one with copies
  std::optional<Graph> given;  // where that differs
  Assignment assignment;       // of this graph's nodes
  std::vector<NodeId> ids;     // by node of the given graph: its number in this (sched/row_split.h); empty: the same
  std::vector<Slice> slices;
  std::vector<Snapshot> snapshots;
  bool overlaps = false;      // some slices may run at the same time
  bool copies_state = false;  // some slice copies a tensor that nodes change: what is copied depends on other runs

  NodeId id_of(NodeId given) const { return ids.empty() ? given : ids[static_cast<size_t>(given)]; }
  size_t n_copies() const;
};

/// Nodes (of the given graph) to cut behind, so that their values can be seen before anything overwrites them.
using WatchNode = std::function<bool(const Graph&, NodeId)>;

/// Tensors that change while a graph runs (tables of a cache, when the next micro-batch is already planned): each
/// device gets them as they were when the run began.
using SnapshotTensor = std::function<bool(const Tensor&)>;

struct ScheduleOptions {
  PinNode pin{};
  WatchNode watch{};
  SnapshotTensor snapshot{};
};

/// Errors: those of split_rows() and assign().
Result<Schedule> make_schedule(Graph graph, std::span<const Device* const> devices, const ScheduleOptions& options);

/// The nodes of a slice as a graph of their own: values from outside are inputs, values that are read later are
/// outputs. `ids` gets the number of each of its nodes in the schedule's graph.
Graph slice_graph(const Schedule& schedule, const Slice& slice, std::vector<NodeId>& ids);

}  // namespace tessera
