#include "tessera/sched/assign.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

enum class Direction : uint8_t { down, up };

class Assigner {
 public:
  Assigner(const Graph& graph, std::span<const Device* const> devices)
      : graph_(graph), devices_(devices), entries_(to_size(graph.size())) {}

  Result<Assignment> run(const PinNode& pin) {
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (graph_[id].is_work()) TESSERA_TRY(fix(id, pin));
    for (const bool any_device : {false, true})
      for (const Direction direction : {Direction::down, Direction::up}) expand(direction, any_device);
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (graph_[id].is_work()) TESSERA_TRY(place(id));
    follow();
    return Assignment{std::move(entries_)};
  }

 private:
  Assignment::Entry& at(NodeId id) { return entries_[to_size(id)]; }
  const Assignment::Entry& at(NodeId id) const { return entries_[to_size(id)]; }
  int last() const { return static_cast<int>(devices_.size()) - 1; }
  const Device& device(int d) const { return *devices_[to_size(d)]; }

  bool supports(int d, NodeId id) const { return device(d).supports(graph_, id); }
  const Tensor* tensor_behind(NodeId id) const { return graph_[graph_.storage(id)].tensor; }

  Result<> fix(NodeId id, const PinNode& pin) {
    if (pin)
      if (const std::optional<int> to = pin(graph_, id)) {
        if (*to < 0 || *to > last())
          return fail(ErrorCode::invalid_argument, "{} is pinned to device {}, want 0 to {}", graph_[id].name, *to,
                      last());
        if (!supports(*to, id))
          return fail(ErrorCode::unsupported, "{} cannot run {}, which is pinned to it", device(*to).name(),
                      describe(graph_, id));
        at(id) = {*to, Cause::pinned, kNoNode};
        return {};
      }
    const Node& node = graph_[id];
    for (size_t i = 0; i < node.n_sources; ++i)
      if (node.sources[i] != kNoNode && writes_operand(node, i))
        if (const Tensor* tensor = tensor_behind(node.sources[i])) return fix_to_store(id, node.sources[i], *tensor);
    // The first tensor among the operands determines the device: a weight, a table, K.
    for (const NodeId source : node.inputs()) {
      const Tensor* tensor = source == kNoNode ? nullptr : tensor_behind(source);
      if (tensor == nullptr) continue;
      const int primary = primary_device(tensor->buffer_type, devices_);
      if (primary < 0 || !supports(primary, id)) continue;
      at(id) = {primary, Cause::reads, graph_.storage(source)};
      return {};
    }
    return {};
  }

  Result<> fix_to_store(NodeId id, NodeId source, const Tensor& tensor) {
    const int primary = primary_device(tensor.buffer_type, devices_);
    if (primary >= 0 && supports(primary, id)) {
      at(id) = {primary, Cause::stores, graph_.storage(source)};
      return {};
    }
    for (int d = 0; d <= last(); ++d)
      if (tensor.buffer_type != nullptr && device(d).can_use(*tensor.buffer_type) && supports(d, id)) {
        at(id) = {d, Cause::stores, graph_.storage(source)};
        return {};
      }
    return fail(ErrorCode::unsupported, "no device can run {} where {} lies", describe(graph_, id), tensor.name);
  }

  // A node without a device gets the device of the nearest earlier (or later) node that has one.
  void expand(Direction direction, bool any_device) {
    NodeId neighbour = kNoNode;
    for (NodeId i = 0; i < graph_.size(); ++i) {
      const NodeId id = direction == Direction::down ? i : graph_.size() - 1 - i;
      if (!graph_[id].is_work()) continue;
      if (at(id).device >= 0) {
        neighbour = any_device || at(id).device != last() ? id : kNoNode;
      } else if (neighbour != kNoNode && supports(at(neighbour).device, id)) {
        at(id) = {at(neighbour).device, Cause::expanded, neighbour};
        neighbour = id;
      }
    }
  }

  Result<> place(NodeId id) {
    if (at(id).device < 0) {
      int best = -1, most = -1;
      for (int d = 0; d <= last(); ++d) {
        if (!supports(d, id)) continue;
        const int usable = n_usable(d, id);
        if (usable > most) std::tie(best, most) = std::pair{d, usable};
      }
      if (best < 0) return fail(ErrorCode::unsupported, "no device can run {}", describe(graph_, id));
      at(id) = {best, Cause::operands, kNoNode};
    }
    if (const NodeId value = value_stored_into(id); value != kNoNode) {
      // The node changes the value in place.
      const int d = memory_of(value);
      if (!device(at(id).device).can_use(device(d).buffer_type())) {
        if (!supports(d, id))
          return fail(ErrorCode::unsupported, "{} cannot run {}, which changes a value there", device(d).name(),
                      describe(graph_, id));
        at(id) = {d, Cause::stores, value};
      }
    } else if (at(id).cause != Cause::pinned && at(id).cause != Cause::stores) {
      upgrade(id);
    }
    return {};
  }

  void upgrade(NodeId id) {
    const BufferType& memory = device(at(id).device).buffer_type();
    for (int d = 0; d < at(id).device; ++d)
      if (&device(d).buffer_type() == &memory && supports(d, id) && n_usable(d, id) == graph_[id].n_sources) {
        at(id) = {d, Cause::upgraded, kNoNode};
        return;
      }
  }

  // The number of operands that need no copy on device d. Operands without a device yet count as well.
  int n_usable(int d, NodeId id) const {
    int n = 0;
    for (const NodeId source : graph_[id].inputs()) {
      if (source == kNoNode) {
        ++n;
        continue;
      }
      const NodeId storage = graph_.storage(source);
      const Tensor* tensor = graph_[storage].tensor;
      const BufferType* memory = tensor != nullptr         ? tensor->buffer_type
                                 : at(storage).device >= 0 ? &device(at(storage).device).buffer_type()
                                                           : nullptr;
      if (memory == nullptr || device(d).can_use(*memory)) ++n;
    }
    return n;
  }

  // The value that a node changes in place, unless it is a tensor.
  NodeId value_stored_into(NodeId id) const {
    const Node& node = graph_[id];
    for (size_t i = 0; i < node.n_sources; ++i)
      if (node.sources[i] != kNoNode && writes_operand(node, i) && tensor_behind(node.sources[i]) == nullptr)
        return graph_.storage(node.sources[i]);
    return kNoNode;
  }

  // The device of a value. An input is on the device of its first reader, which is assigned already.
  int memory_of(NodeId storage) const {
    if (graph_[storage].op != Op::input) return at(storage).device;
    for (NodeId id = storage + 1; id < graph_.size(); ++id)
      for (const NodeId source : graph_[id].inputs())
        if (graph_[id].is_work() && source != kNoNode && graph_.storage(source) == storage) return at(id).device;
    return last();
  }

  void follow() {
    for (NodeId id = graph_.size() - 1; id >= 0; --id) {  // backwards, so that the first reader is set last
      if (!graph_[id].is_work()) continue;
      for (const NodeId source : graph_[id].inputs()) {
        if (source == kNoNode) continue;
        const NodeId storage = graph_.storage(source);
        if (graph_[storage].op == Op::input) at(storage) = {at(id).device, Cause::follows, id};
      }
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (graph_[id].is_work()) continue;
      const NodeId storage = graph_.storage(id);
      if (graph_[id].op == Op::tensor) {
        const int primary = primary_device(graph_[id].tensor->buffer_type, devices_);
        at(id) = {primary < 0 ? last() : primary, Cause::follows, kNoNode};
      } else if (id != storage) {
        at(id) = {at(storage).device, Cause::follows, storage};
      } else if (at(id).device < 0) {
        at(id) = {last(), Cause::follows, kNoNode};  // an input that nobody reads
      }
    }
  }

  const Graph& graph_;
  std::span<const Device* const> devices_;
  std::vector<Assignment::Entry> entries_;
};

}  // namespace

std::string_view name_of(Cause cause) {
  constexpr std::string_view kNames[] = {"pinned", "stores", "reads", "expanded", "operands", "upgraded", "follows"};
  return kNames[to_size(cause)];
}

int primary_device(const BufferType* type, std::span<const Device* const> devices) {
  if (type == nullptr) return -1;
  auto found = std::ranges::find(devices, &type->device());
  if (found == devices.end()) found = std::ranges::find_if(devices, [&](auto* d) { return d->can_use(*type); });
  return found == devices.end() ? -1 : static_cast<int>(found - devices.begin());
}

Result<Assignment> assign(const Graph& graph, std::span<const Device* const> devices, const PinNode& pin) {
  return Assigner(graph, devices).run(pin);
}

std::string describe(const Graph& graph, const Assignment& assignment, std::span<const Device* const> devices) {
  std::string lines;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!graph[id].is_work()) continue;
    const Assignment::Entry& entry = assignment.entries[to_size(id)];
    fmt::format_to(std::back_inserter(lines), "{} {}: {} ({}", id, describe(graph, id),
                   devices[to_size(entry.device)]->name(), name_of(entry.cause));
    if (entry.reason != kNoNode) {
      const Node& reason = graph[entry.reason];
      fmt::format_to(std::back_inserter(lines), " {} {}", entry.reason,
                     reason.name.empty() ? info(reason.op).name : std::string_view(reason.name));
    }
    lines += ")\n";
  }
  return lines;
}

}  // namespace tessera
