// Runs graphs on one or more backends, out of one compute buffer per memory. The caller reserves the worst case once,
// from graphs of the largest shapes. Every later graph is planned into these buffers, so running never allocates.
//
// Slices that do not depend on one another (sched/schedule.h) run at the same time, on one thread per backend. Whole
// runs overlap too, if the executor has several pipeline slots: each slot has values of its own, and start() begins a
// run on one slot while another slot is busy. A backend works on one slice at a time, in the order of the starts. So a
// run sees the caches of its device as the runs before it left them, and nothing of later runs. A run that copies such
// a cache to another device never overlaps with another run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/index.h"
#include "tessera/base/stream.h"
#include "tessera/graph/builder.h"
#include "tessera/sched/memory_plan.h"
#include "tessera/sched/schedule.h"

namespace tessera {

/// Bytes that running a graph needs in one memory.
struct ComputeBytes {
  const BufferType* memory = nullptr;
  size_t values = 0;  // the graph's values, copies included
  size_t work = 0;    // the backends' scratch
  size_t total() const { return values + work; }
};

/// A graph with memory and compiled plans; made by Executor::prepare, kept and run again.
class PreparedGraph {
 public:
  /// The graph as the caller gave it.
  const Graph& graph() const { return schedule_.given ? *schedule_.given : schedule_.graph; }
  /// The memory of the value of a node of graph().
  const Tensor& tensor(NodeId id, size_t pipeline_slot = 0) const {
    return scheduled_tensor(schedule_.id_of(id), pipeline_slot);
  }
  /// Pipeline slots that the graph can run on, counted from slot 0.
  size_t n_pipeline_slots() const { return slots_.size(); }

  /// The slices of the graph; memory(i) places the values of schedule().graph in Executor::memories()[i].
  const Schedule& schedule() const { return schedule_; }
  const MemoryPlan& memory(size_t i = 0) const { return memories_[i]; }
  const std::vector<MemoryPlan>& memories() const { return memories_; }
  /// The memory of the value of a node of schedule().graph.
  const Tensor& scheduled_tensor(NodeId id, size_t pipeline_slot = 0) const {
    return slots_[pipeline_slot].tensors[to_size(id)];
  }

 private:
  friend class Executor;
  struct SliceGraph {
    Graph graph;              // empty if the whole schedule is one slice
    std::vector<NodeId> ids;  // of its nodes in the schedule's graph
  };
  struct CompiledSlice {
    std::vector<Tensor> tensors;
    std::unique_ptr<GraphPlan> plan;
  };
  // The graph bound to the values of one pipeline slot.
  struct BoundGraph {
    std::vector<Tensor> tensors;  // of the schedule's graph
    std::vector<CompiledSlice> slices;
  };

  Schedule schedule_;
  std::vector<MemoryPlan> memories_;
  std::vector<SliceGraph> slice_graphs_;
  std::vector<BoundGraph> slots_;
};

/// Fills an input of a prepared graph: a span or vector of its elements.
template <std::ranges::contiguous_range Values>
Result<> set_input(const PreparedGraph& graph, Value input, const Values& values, size_t pipeline_slot = 0) {
  const Tensor& tensor = graph.tensor(input.id(), pipeline_slot);
  return tensor.buffer->set(tensor, 0, std::as_bytes(std::span(values)));
}

/// Timeline of one run: per device, in execution order, in microseconds since its start. Nodes are those of
/// PreparedGraph::schedule().
struct RunLog {
  struct Slice {
    size_t index;
    double begin_us, us;
  };
  std::vector<Slice> slices;
  std::vector<NodeTime> copies;
  std::vector<NodeTime> nodes;  // only of devices that measure nodes

  void append(const RunLog& other);
};

/// Called with a watched node of PreparedGraph::graph() and its value, before later nodes can overwrite it. An error
/// ends the run.
using NodeObserver = std::function<Result<>(NodeId, const Tensor&)>;

struct GraphRunOptions {
  size_t pipeline_slot = 0;             // whose values are read and written; below n_pipeline_slots()
  const CancelToken* cancel = nullptr;  // null: the run cannot be cancelled
  RunLog* log = nullptr;                // receives the timeline of the run; null: nothing is measured
  NodeObserver observe{};  // called for the nodes of ScheduleOptions::watch; slices then run one after another
};

class Executor {
 public:
  /// The backends must outlive the executor.
  explicit Executor(Backend& backend) : Executor({&backend}, {}) {}
  /// Backends in order of priority, at least one; the last runs the nodes that no other can (sched/assign.h). Each
  /// pipeline slot has a copy of all values, so compute buffers grow with n_pipeline_slots.
  Executor(std::vector<Backend*> backends, ScheduleOptions options, size_t n_pipeline_slots = 1);
  Executor(const Executor&) = delete;
  ~Executor();

  const std::vector<const Device*>& devices() const { return devices_; }
  /// The memories of the backends, each once.
  const std::vector<const BufferType*>& memories() const { return memories_; }

  /// The slices of a graph on these devices. Errors: those of assign().
  Result<Schedule> schedule(Graph graph) const { return make_schedule(std::move(graph), devices_, options_); }

  /// Bytes of the compute buffers that hold each of these graphs, by memory. Allocates nothing.
  Result<std::vector<ComputeBytes>> measure(std::span<const Graph> graphs) const;

  /// Allocates the compute buffers for the largest shapes that will run. Called once, before prepare(). A later graph
  /// with the same nodes and smaller values always fits.
  Result<> reserve(std::span<const Graph> largest);
  /// Bytes of the compute buffers, by memory.
  std::vector<size_t> reserved_bytes() const;

  /// Places and compiles a graph for the first n_pipeline_slots slots. Errors: limit (it does not fit in the reserved
  /// memory); those of assign().
  Result<std::unique_ptr<PreparedGraph>> prepare(Graph graph, size_t n_pipeline_slots = 1);

  /// Runs a graph to its end. No started run may be unfinished. Errors: those of Backend::run, of copies between
  /// devices and of options.observe.
  Result<> run(PreparedGraph& prepared, const GraphRunOptions& options = {});

  /// Starts an asynchronous run on an idle pipeline slot; inputs and snapshots are captured now. The graph, its inputs,
  /// the token and the log must stay untouched until wait(). options.observe must be empty. Errors: out_of_memory (no
  /// thread can be made).
  Result<> start(PreparedGraph& prepared, const GraphRunOptions& options);
  /// Waits for the end of the run on a pipeline slot; an idle slot succeeds. Errors: those of the run.
  Result<> wait(size_t pipeline_slot);

 private:
  struct Planned {
    Schedule schedule;
    std::vector<MemoryPlan> memories;
  };
  // Bytes of one graph, or the most of several.
  struct Sizes {
    std::vector<size_t> values;  // by memory
    std::vector<size_t> work;    // by backend
  };

  using Clock = std::chrono::steady_clock;
  // The log of a run and the time of its start; null: not logged.
  struct LogPart {
    RunLog* to;
    Clock::time_point begin;
    double us() const {
      return to == nullptr ? 0 : std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    }
  };

  Result<Planned> plan(Graph graph) const;
  Result<std::vector<Planned>> plan_all(std::span<const Graph> graphs) const;
  Result<size_t> work_of_graph(size_t backend, const Graph& graph) const;
  Result<Sizes> sizes(const Planned& planned) const;
  Result<Sizes> largest_sizes(std::span<const Planned> planned) const;
  std::vector<ComputeBytes> by_memory(const Sizes& sizes) const;
  Result<Planned> plan_into_reserved(Graph graph) const;
  BufferRange work_of(size_t backend) const;
  Tensor tensor_of(const PreparedGraph& prepared, NodeId id, size_t pipeline_slot) const;
  Result<> compile(PreparedGraph& prepared, PreparedGraph::BoundGraph& bound) const;
  Result<> take_snapshots(PreparedGraph& prepared, size_t pipeline_slot) const;
  Result<> copy_inputs(PreparedGraph& prepared, size_t slice, size_t pipeline_slot, const LogPart& log) const;
  Result<> compute(PreparedGraph& prepared, size_t slice, const GraphRunOptions& options, const LogPart& log) const;
  void run_when_ready(size_t pipeline_slot, size_t slice);

  std::vector<Backend*> backends_;
  std::vector<const Device*> devices_;
  std::vector<const BufferType*> memories_;
  std::vector<size_t> memory_of_;  // by backend
  ScheduleOptions options_;
  Sizes reserved_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // by memory
  std::vector<Planned> largest_;

  struct InFlightRun {
    PreparedGraph* prepared = nullptr;  // null: the slot is idle
    GraphRunOptions options{};
    Clock::time_point begin{};
    std::vector<uint32_t> n_ended, n_copied;  // slices, by device
    size_t n_done = 0;                        // slices that have ended, of all devices
    std::optional<Error> error{};
  };
  std::mutex mutex_;  // of runs_
  std::condition_variable changed_;
  std::vector<InFlightRun> runs_;                 // by pipeline slot
  std::vector<std::unique_ptr<Stream>> streams_;  // by backend; made for the first start()
};

}  // namespace tessera
