#include "tessera/sched/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/graph/builder.h"
#include "tessera/graph/op_info.h"
#include "tessera/sched/row_split.h"
#include "tessera/sched/slice_waits.h"

namespace tessera {

namespace {

class Splitter {
 public:
  Splitter(const Graph& graph, const Assignment& assignment, std::span<const Device* const> devices,
           const ScheduleOptions& options)
      : graph_(graph),
        assignment_(assignment),
        devices_(devices),
        options_(options),
        changed_(changed_storages(graph)),
        new_ids_(to_size(graph.size()), kNoNode),
        waits_(graph, devices) {}

  Result<Schedule> run() {
    for (NodeId begin = 0, end = 0; begin < graph_.size(); begin = end) {
      Slice slice{.device = -1, .begin = size_, .end = 0, .copies = {}};
      end = end_of_slice(begin, slice);
      if (slice.device >= 0) add_copies(begin, end, slice);
      for (NodeId id = begin; id < end; ++id) add(id, slice.device);
      slice.end = size_;
      if (slice.device < 0) continue;
      schedule_.overlaps |= waits_.add_slice(slice, begin, end);
      schedule_.slices.push_back(std::move(slice));
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      NodeId& reason = schedule_.assignment.entries[to_size(new_id(id))].reason;
      if (reason != kNoNode) reason = new_id(reason);
    }
    TESSERA_ASSIGN(schedule_.graph, std::move(builder_).finish());
    schedule_.ids = std::move(new_ids_);
    return std::move(schedule_);
  }

 private:
  const Device& device(int d) const { return *devices_[to_size(d)]; }

  // The end of the slice that starts at `begin`: the next node of another device. The slice has no device if no node
  // that runs is left. It also ends before a node that waits for a later slice than its predecessors, so that these can
  // start earlier.
  NodeId end_of_slice(NodeId begin, Slice& slice) const {
    size_t n_waited_for = 0;
    for (NodeId id = begin; id < graph_.size(); ++id) {
      if (!graph_[id].is_work()) continue;
      if (slice.device >= 0 && assignment_.device(id) != slice.device) return id;
      const size_t n_wanted = n_up_to_writer(id);
      if (slice.device >= 0 && n_wanted > n_waited_for) return id;
      n_waited_for = std::max(n_waited_for, n_wanted);
      slice.device = assignment_.device(id);
      if (!options_.watch || !options_.watch(graph_, id)) continue;
      slice.watched = id;
      return id + 1;
    }
    return graph_.size();
  }

  // The number of slices up to the last one that wrote a value which the node copies.
  size_t n_up_to_writer(NodeId id) const {
    size_t last = 0;
    for (const NodeId source : graph_[id].inputs()) {
      if (source == kNoNode || !needs_copy(source, assignment_.device(id))) continue;
      const NodeId storage = graph_.storage(source);
      const bool is_there = copies_.contains({storage, assignment_.device(id)}) && !changed_[to_size(storage)];
      if (!is_there) last = std::max(last, waits_.n_up_to_writer(storage));
    }
    return last;
  }

  const BufferType* memory_of(NodeId storage) const {
    if (graph_[storage].op == Op::tensor) return graph_[storage].tensor->buffer_type;
    return &device(assignment_.device(storage)).buffer_type();
  }

  bool is_snapshot(NodeId storage) const {
    const Tensor* tensor = graph_[storage].tensor;
    return tensor != nullptr && options_.snapshot && options_.snapshot(*tensor);
  }

  bool needs_copy(NodeId source, int device) const {
    const NodeId storage = graph_.storage(source);
    if (is_snapshot(storage)) return true;
    const BufferType* memory = memory_of(storage);
    return memory != nullptr && !devices_[to_size(device)]->can_use(*memory);
  }

  void add_copies(NodeId begin, NodeId end, Slice& slice) {
    std::erase_if(copies_, [&](const auto& copy) { return changed_[to_size(copy.first.first)]; });
    for (NodeId id = begin; id < end; ++id) {
      if (!graph_[id].is_work()) continue;
      for (const NodeId source : graph_[id].inputs()) {
        if (source == kNoNode || !needs_copy(source, slice.device)) continue;
        const NodeId storage = graph_.storage(source);
        auto& copy = copies_.try_emplace({storage, slice.device}, kNoNode).first->second;
        if (copy != kNoNode) continue;
        Node node{.op = Op::input, .spec = graph_[storage].spec};
        node.name = graph_[storage].name;
        if (is_snapshot(storage)) {
          copy = append(std::move(node), {slice.device, Cause::follows, kNoNode});
          schedule_.snapshots.push_back({copy, graph_[storage].tensor});
          continue;
        }
        if (graph_[storage].is_leaf()) add(storage, slice.device);
        node.op = Op::copy;
        node.sources[node.n_sources++] = new_id(storage);
        copy = append(std::move(node), {slice.device, Cause::follows, new_id(storage)});
        slice.copies.push_back(copy);
        waits_.add_copy(slice, storage, *memory_of(storage));
        schedule_.copies_state |= graph_[storage].op == Op::tensor && changed_[to_size(storage)];
      }
    }
    views_.clear();
  }

  // The node that `device` reads instead of `source`: itself, a copy, or a view of a copy.
  NodeId readable(NodeId source, int device) {
    if (!needs_copy(source, device)) return new_id(source);
    const NodeId storage = graph_.storage(source);
    const NodeId copy = copies_.at({storage, device});
    if (source == storage) return copy;
    NodeId& view = views_.try_emplace(source, kNoNode).first->second;
    if (view != kNoNode) return view;
    Node node{.op = Op::view, .spec = graph_[source].spec};
    node.sources[node.n_sources++] = copy;
    node.alias_of = copy;
    node.alias_offset = graph_.storage_offset(source);
    node.name = graph_[source].name;
    return view = append(std::move(node), {device, Cause::follows, copy});
  }

  void add(NodeId id, int device) {
    if (new_id(id) != kNoNode) return;  // a leaf, already added for a copy
    Node node = graph_[id];
    for (size_t i = 0; i < node.n_sources; ++i)
      if (node.sources[i] != kNoNode)
        node.sources[i] = node.is_work() ? readable(node.sources[i], device) : new_id(node.sources[i]);
    if (node.alias_of != kNoNode) node.alias_of = new_id(node.alias_of);
    new_ids_[to_size(id)] = append(std::move(node), assignment_.entries[to_size(id)]);
  }

  NodeId new_id(NodeId id) const { return new_ids_[to_size(id)]; }

  NodeId append(Node node, Assignment::Entry entry) {
    schedule_.assignment.entries.push_back(entry);
    ++size_;
    return builder_.append(std::move(node));
  }

  const Graph& graph_;
  const Assignment& assignment_;
  std::span<const Device* const> devices_;
  const ScheduleOptions& options_;
  std::vector<bool> changed_;
  GraphBuilder builder_;
  NodeId size_ = 0;
  Schedule schedule_;
  std::vector<NodeId> new_ids_;  // by node of the given graph
  SliceWaits waits_;
  std::map<std::pair<NodeId, int>, NodeId> copies_;  // by (storage, device): the latest copy
  std::map<NodeId, NodeId> views_;                   // of copies, in the slice that is being made
};

}  // namespace

size_t Schedule::n_copies() const {
  size_t n = 0;
  for (const Slice& slice : slices) n += slice.copies.size();
  return n;
}

namespace {

// Adapts the options, which refer to nodes of the given graph, to the graph with split products.
ScheduleOptions for_split(const ScheduleOptions& options, const Graph& given, const RowSplit& split) {
  ScheduleOptions of_split{.pin = {}, .watch = {}, .snapshot = options.snapshot};
  const auto id_of = [&](NodeId id) { return split.given[to_size(id)]; };
  if (options.pin)
    of_split.pin = [&, id_of](const Graph&, NodeId id) {
      return id_of(id) == kNoNode ? std::nullopt : options.pin(given, id_of(id));
    };
  if (options.watch)
    of_split.watch = [&, id_of](const Graph&, NodeId id) {
      return id_of(id) != kNoNode && options.watch(given, id_of(id));
    };
  return of_split;
}

Result<Schedule> split_slices(const Graph& graph, std::span<const Device* const> devices,
                              const ScheduleOptions& options) {
  TESSERA_ASSIGN(const Assignment assignment, assign(graph, devices, options.pin));
  return Splitter(graph, assignment, devices, options).run();
}

}  // namespace

Result<Schedule> make_schedule(Graph graph, std::span<const Device* const> devices, const ScheduleOptions& options) {
  TESSERA_ASSIGN(const std::optional<RowSplit> split, split_rows(graph));
  if (devices.size() == 1 && !split && !options.watch && !options.snapshot) {
    // The nodes are not checked here: the backend refuses those that it cannot run.
    Schedule whole;
    whole.assignment.entries.assign(to_size(graph.size()), {.device = 0});
    whole.slices.push_back({.device = 0, .begin = 0, .end = graph.size(), .copies = {}, .watched = kNoNode});
    whole.slices.back().ended = whole.slices.back().copied = {0};
    whole.graph = std::move(graph);
    return whole;
  }
  if (!split) {
    TESSERA_ASSIGN(Schedule schedule, split_slices(graph, devices, options));
    schedule.given = std::move(graph);
    return schedule;
  }
  TESSERA_ASSIGN(Schedule schedule, split_slices(split->graph, devices, for_split(options, graph, *split)));
  std::vector<NodeId> ids;
  for (const NodeId id : split->ids) ids.push_back(schedule.id_of(id));
  schedule.ids = std::move(ids);
  for (Slice& slice : schedule.slices)
    if (slice.watched != kNoNode) slice.watched = split->given[to_size(slice.watched)];
  schedule.given = std::move(graph);
  return schedule;
}

namespace {

class SliceGraph {
 public:
  SliceGraph(const Graph& graph, const Slice& slice, std::vector<NodeId>& ids)
      : graph_(graph), slice_(slice), ids_(ids), local_(to_size(graph.size()), kNoNode) {}

  Graph build() && {
    mark_read_later();
    for (NodeId id = slice_.begin; id < slice_.end; ++id) {
      Node node = graph_[id];
      const bool is_view = node.op == Op::view;
      if (node.is_leaf() || node.op == Op::copy || (is_view && local(node.alias_of) == kNoNode)) continue;
      for (size_t i = 0; i < node.n_sources; ++i)
        if (node.sources[i] != kNoNode) node.sources[i] = is_view ? local(node.sources[i]) : operand(node.sources[i]);
      if (node.alias_of != kNoNode) node.alias_of = is_view ? local(node.alias_of) : operand(node.alias_of);
      node.is_output |= read_later_[to_size(graph_.storage(id))];
      append(id, std::move(node));
    }
    return std::move(builder_).finish().value();  // cannot fail: the nodes are checked already
  }

 private:
  void mark_read_later() {
    read_later_.assign(to_size(graph_.size()), false);
    for (NodeId id = slice_.end; id < graph_.size(); ++id)
      for (const NodeId source : graph_[id].inputs())
        if (source != kNoNode) read_later_[to_size(graph_.storage(source))] = true;
  }

  NodeId local(NodeId id) const { return local_[to_size(id)]; }

  NodeId append(NodeId id, Node node) {
    ids_.push_back(id);
    return local_[to_size(id)] = builder_.append(std::move(node));
  }

  // The local node of a node of the schedule; an input if it is of another slice.
  NodeId operand(NodeId id) {
    if (local(id) != kNoNode) return local(id);
    const NodeId storage = graph_.storage(id);
    if (local(storage) == kNoNode) {
      Node leaf = graph_[storage];
      if (leaf.op != Op::tensor) leaf = Node{.op = Op::input, .spec = leaf.spec, .name = leaf.name};
      append(storage, std::move(leaf));
    }
    if (id == storage) return local(storage);
    Node view{.op = Op::view, .spec = graph_[id].spec};
    view.sources[view.n_sources++] = local(storage);
    view.alias_of = local(storage);
    view.alias_offset = graph_.storage_offset(id);
    view.name = graph_[id].name;
    return append(id, std::move(view));
  }

  const Graph& graph_;
  const Slice& slice_;
  std::vector<NodeId>& ids_;
  std::vector<NodeId> local_;     // by node of the schedule's graph
  std::vector<bool> read_later_;  // by storage
  GraphBuilder builder_;
};

}  // namespace

Graph slice_graph(const Schedule& schedule, const Slice& slice, std::vector<NodeId>& ids) {
  ids.clear();
  return SliceGraph(schedule.graph, slice, ids).build();
}

}  // namespace tessera
