// Hooks to observe steps: timings, and values of selected nodes. They change no result; docs/graph.md shows how to use
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/sched/executor.h"

namespace tessera {

/// A micro-batch that was computed. References are valid during the call.
struct StepView {
  const PreparedGraph& graph;
  const RunLog& log;
  std::chrono::steady_clock::time_point begin;  // time 0 of the log
  int64_t n_tokens = 0;
  int64_t n_outputs = 0;
};
using StepObserver = std::function<void(const StepView&)>;

/// Values to observe while steps run. A watched node ends its slice of the schedule, so the callback sees the original
/// memory, graph.tensor(id), before a later node overwrites it. Results do not change.
struct ValueWatch {
  WatchNode wants{};                                            // selects nodes of a step's graph; empty: none
  std::function<Result<>(const PreparedGraph&, NodeId)> see{};  // called in order of nodes; an error ends the step
};

/// Contiguous values as floats; no value for types other than f32, f16, bf16 and i32.
std::optional<std::vector<float>> floats_of(DType dtype, std::span<const std::byte> bytes);

/// The value of a node of graph.graph(), converted to floats. Errors: unsupported (not f32, f16, bf16 or i32);
/// out_of_memory.
Result<std::vector<float>> read_values(const PreparedGraph& graph, NodeId id);

/// A readable name: of the node itself, else of the weight or cache that it uses, else of its operation.
std::string label_of(const Graph& graph, NodeId id);

/// The layer of each node, from the names of the weights and caches that it and earlier nodes use. -1: the node is
/// before the first layer or after the last.
std::vector<int> layers_of(const Graph& graph);

}  // namespace tessera
