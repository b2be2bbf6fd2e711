// Which device runs each node of a graph. Devices are in order of priority; the last, as a rule the CPU, takes what is
// left. The passes:
//   1. fixed: a node that stores into a tensor, or reads one (weights, caches), runs where that lies; pins come first
//   2. expanded: nodes that nothing fixes run where their neighbours do, first those of all devices but the last
//   3. placed: what is left runs where most of its operands can be used; a node moves to a device of higher priority
//      that works in the same memory
//   4. followed: inputs lie where they are first read, views where their values do
// A device gets no node that it does not support.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/graph/node.h"

namespace tessera {

/// Why a node is where it is.
enum class Cause : uint8_t {
  pinned,    // the caller said so
  stores,    // into `reason`, a tensor or a value there
  reads,     // `reason`, a tensor there
  expanded,  // `reason`, its neighbour in the graph, is there
  operands,  // most of its operands can be used there
  upgraded,  // a device of higher priority works in the same memory
  follows,   // `reason`: what a view is of, or the first reader of an input; of a tensor: where it lies
};
std::string_view name_of(Cause cause);

struct Assignment {
  struct Entry {
    int device = -1;  // in the list of devices
    Cause cause = Cause::follows;
    NodeId reason = kNoNode;
  };
  std::vector<Entry> entries;  // by node

  int device(NodeId id) const { return entries[static_cast<size_t>(id)].device; }
};

/// The device that a node must run on; nothing where it may run anywhere.
using PinNode = std::function<std::optional<int>(const Graph&, NodeId)>;

/// Errors: unsupported (a node that no device can run, or not the one it must run on).
Result<Assignment> assign(const Graph& graph, std::span<const Device* const> devices, const PinNode& pin = {});

/// The device in whose memory a tensor of this type lies, else the first that can use it; -1: none.
int home_of(const BufferType* type, std::span<const Device* const> devices);

/// A line per node that runs somewhere: the node, its device, the cause. For people.
std::string describe(const Graph& graph, const Assignment& assignment, std::span<const Device* const> devices);

}  // namespace tessera
