// Runs graphs on a backend out of one compute buffer. Reserve the worst case once, from graphs of the largest shapes;
// every later graph is planned into that buffer, and running never allocates.
#pragma once

#include <memory>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/graph/builder.h"
#include "tessera/sched/memory_plan.h"

namespace tessera {

/// What running a graph takes.
struct ComputeBytes {
  size_t values = 0;  // the graph's values
  size_t work = 0;    // the backend's scratch
  size_t total() const { return values + work; }
};

/// A graph with memory and a compiled plan; made by Executor::prepare, kept and run again.
class PreparedGraph {
 public:
  const Graph& graph() const { return graph_; }
  const MemoryPlan& memory() const { return memory_; }
  /// Where a node's value lies.
  const Tensor& place(NodeId id) const { return places_[static_cast<size_t>(id)]; }

 private:
  friend class Executor;
  Graph graph_;
  MemoryPlan memory_;
  std::vector<Tensor> places_;
  std::unique_ptr<GraphPlan> plan_;
};

/// Fills an input of a prepared graph: a span or vector of its elements.
template <std::ranges::contiguous_range Values>
Result<> set_input(const PreparedGraph& graph, Value input, const Values& values) {
  const Tensor& place = graph.place(input.id());
  return place.buffer->set(place, 0, std::as_bytes(std::span(values)));
}

class Executor {
 public:
  /// The backend must outlive the executor.
  explicit Executor(Backend& backend) : backend_(backend) {}

  /// What a graph would take; allocates nothing.
  Result<ComputeBytes> measure(const Graph& graph) const;

  /// What the largest of these graphs takes: the size of the compute buffer that holds each of them.
  Result<ComputeBytes> measure(std::span<const Graph> graphs) const;

  /// Allocates the compute buffer for the largest shapes that will be run, once, before anything is prepared. A later
  /// graph of the same nodes with smaller values always fits.
  Result<> reserve(std::span<const Graph> largest);
  size_t reserved_bytes() const { return buffer_ == nullptr ? 0 : buffer_->size(); }

  /// Places and compiles a graph. Errors: limit when it does not fit what was reserved.
  Result<std::unique_ptr<PreparedGraph>> prepare(Graph graph);

  Result<> run(PreparedGraph& prepared, const CancelToken* cancel) { return backend_.run(*prepared.plan_, cancel); }

 private:
  Result<MemoryPlan> plan(const Graph& graph) const;

  Backend& backend_;
  std::unique_ptr<Buffer> buffer_;
  ComputeBytes reserved_;
  std::vector<std::pair<Graph, MemoryPlan>> largest_;
};

}  // namespace tessera
