// To look into a session's steps: when what happened in a run, and the values of chosen nodes while the rest runs as
// ever. Nothing of it is needed to compute; docs/graph.md shows it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/sched/executor.h"

namespace tessera {

/// A micro-batch that was computed. References hold during the call.
struct StepView {
  const PreparedGraph& graph;
  const RunLog& log;
  std::chrono::steady_clock::time_point begin;  // of the log's times
  int64_t n_tokens = 0;
  int64_t n_outputs = 0;
};
using StepObserver = std::function<void(const StepView&)>;

/// Values to see while steps run. A node that is wanted ends a slice of the schedule; what is seen are the very bytes,
/// in the memory of the device that made them: graph.place(id) says where. Results do not change for it.
struct ValueWatch {
  WatchNode wants{};                                            // of a step's graph; empty: none
  std::function<Result<>(const PreparedGraph&, NodeId)> see{};  // an error ends the step; called in order of nodes
};

/// The value of a node of graph.graph(), as floats. Errors: unsupported (of a type that is no float); out_of_memory.
Result<std::vector<float>> read_values(const PreparedGraph& graph, NodeId id);

/// A name for people: the node's own, else that of the weight it works with, else its operation's.
std::string label_of(const Graph& graph, NodeId id);

/// The layer of each node, by the names of the weights and caches that it and the nodes before it use; -1: before the
/// first or behind the last.
std::vector<int> layers_of(const Graph& graph);

}  // namespace tessera
