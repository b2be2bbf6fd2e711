// The assignment of each node of a graph to a device. Devices are in order of priority. The last one, usually the CPU,
// runs all nodes that no other device runs. The passes:
//   1. fixed: nodes that write or read a tensor (weight, cache) run on the tensor's device; pins come first
//   2. expanded: free nodes join their neighbours, first the neighbours on any device but the last
//   3. placed: the remaining nodes run on the device that can use most of their operands; a node moves to a device of
//      higher priority that works in the same memory
//   4. followed: an input is on the device of its first reader, a view on the device of its value
// A device gets no node that it does not support.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/index.h"
#include "tessera/graph/node.h"

namespace tessera {

/// The reason for the device of a node.
enum class Cause : uint8_t {
  pinned,    // chosen by the caller
  stores,    // into `reason`, a tensor or a value on this device
  reads,     // `reason`, a tensor on this device
  expanded,  // `reason`, its neighbour in the graph, is on this device
  operands,  // this device can use most of its operands
  upgraded,  // a device of higher priority works in the same memory
  follows,   // `reason`, the value of a view or the first reader of an input; a tensor is on its own device
};
std::string_view name_of(Cause cause);

struct Assignment {
  struct Entry {
    int device = -1;  // in the list of devices
    Cause cause = Cause::follows;
    NodeId reason = kNoNode;
  };
  std::vector<Entry> entries;  // by node

  int device(NodeId id) const { return entries[to_size(id)].device; }
};

/// The device that a node must run on; no value: any device.
using PinNode = std::function<std::optional<int>(const Graph&, NodeId)>;

/// Errors: unsupported (no device can run a node, or its required device cannot).
Result<Assignment> assign(const Graph& graph, std::span<const Device* const> devices, const PinNode& pin = {});

/// The primary device of a memory: its own device, else the first device that can use it; -1: none.
int primary_device(const BufferType* type, std::span<const Device* const> devices);

/// Readable text with a line per node that runs: the node, its device, the cause.
std::string describe(const Graph& graph, const Assignment& assignment, std::span<const Device* const> devices);

}  // namespace tessera
