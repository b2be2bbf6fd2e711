// A graph over several devices. Its nodes, in their order, are cut into slices of one device each. Copies of the values
// that a slice reads from other devices precede the slice. A copied value stays on the device for later slices, unless
// a node changes the value in place: then each slice copies it anew. A slice waits only for the slices whose values it
// copies, so devices that share no memory can run at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/sched/assign.h"

namespace tessera {

/// Nodes [begin, end) of the schedule's graph: first copies, then the nodes that the device runs as one graph, possibly
/// with leaves among them.
struct Slice {
  int device = 0;
  NodeId begin = 0, end = 0;
  std::vector<NodeId> copies;  // from the device of each source
  NodeId watched = kNoNode;    // the last node, as a node of the given graph, if it is watched
  // Per device, how many of its slices must have finished, and how many must have copied their inputs, before this
  // slice begins. Copied sources may be overwritten. Slices of one device run in their order.
  std::vector<uint32_t> ended{}, copied{};
};

/// A copy of a tensor for one device, made when a run starts.
struct Snapshot {
  NodeId input = kNoNode;  // of the schedule's graph: holds the copy, and replaces the tensor in the device's slices
  const Tensor* tensor = nullptr;
};

struct Schedule {
  Graph graph;                 // the given graph plus copies
  std::optional<Graph> given;  // absent if it equals `graph`
  Assignment assignment;       // of this graph's nodes
  std::vector<NodeId> ids;     // by node of the given graph: its number in `graph` (sched/row_split.h); empty: the same
  std::vector<Slice> slices;
  std::vector<Snapshot> snapshots;
  bool overlaps = false;      // some slices may run at the same time
  bool copies_state = false;  // some slice copies a tensor that nodes change, so the copy depends on other runs

  NodeId id_of(NodeId given) const { return ids.empty() ? given : ids[to_size(given)]; }
  size_t n_copies() const;
};

/// Selects nodes of the given graph that end a slice, so that their values can be read before they are overwritten.
using WatchNode = std::function<bool(const Graph&, NodeId)>;

/// Selects tensors that change while a graph runs, such as tables of a cache while the next micro-batch is reserved.
/// Each device reads a copy that is made when the run starts.
using SnapshotTensor = std::function<bool(const Tensor&)>;

struct ScheduleOptions {
  PinNode pin{};
  WatchNode watch{};
  SnapshotTensor snapshot{};
};

/// Errors: those of split_rows() and assign().
Result<Schedule> make_schedule(Graph graph, std::span<const Device* const> devices, const ScheduleOptions& options);

/// The nodes of a slice as a separate graph: values from other slices are inputs, values that later slices read are
/// outputs. `ids` gets the number of each node in the schedule's graph.
Graph slice_graph(const Schedule& schedule, const Slice& slice, std::vector<NodeId>& ids);

}  // namespace tessera
