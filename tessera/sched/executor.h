// Runs graphs on one or more backends, out of one compute buffer per memory. Reserve the worst case once, from graphs
// of the largest shapes; every later graph is planned into these buffers, and running never allocates.
//
// Slices that need not wait for one another (sched/schedule.h) run at the same time, on a thread per backend. With
// several lanes, each with values of its own, runs overlap too: start() one on a lane while that of another goes on.
// Each backend works on one slice at a time, in the order in which they were started, so a run sees what those before
// it left in caches of the same device, and nothing of those behind it. A run that copies such a cache to another
// device has no other beside it.
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
#include "tessera/graph/builder.h"
#include "tessera/sched/memory_plan.h"
#include "tessera/sched/schedule.h"
#include "tessera/sched/stream.h"

namespace tessera {

/// What running a graph takes of one memory.
struct ComputeBytes {
  const BufferType* memory = nullptr;
  size_t values = 0;  // the graph's values, copies included
  size_t work = 0;    // the backends' scratch
  size_t total() const { return values + work; }
};

/// A graph with memory and compiled plans; made by Executor::prepare, kept and run again.
class PreparedGraph {
 public:
  /// The graph that was given.
  const Graph& graph() const { return schedule_.given ? *schedule_.given : schedule_.graph; }
  /// Where the value of a node of graph() lies.
  const Tensor& place(NodeId id, size_t lane = 0) const { return scheduled_place(schedule_.id_of(id), lane); }
  size_t n_lanes() const { return lanes_.size(); }

  /// How it runs, and where the values of schedule().graph lie in each memory (see Executor::memories()).
  const Schedule& schedule() const { return schedule_; }
  const MemoryPlan& memory(size_t i = 0) const { return memories_[i]; }
  const std::vector<MemoryPlan>& memories() const { return memories_; }
  /// Where the value of a node of schedule().graph lies.
  const Tensor& scheduled_place(NodeId id, size_t lane = 0) const {
    return lanes_[lane].places[static_cast<size_t>(id)];
  }

 private:
  friend class Executor;
  struct SliceGraph {
    Graph graph;              // its own; empty where the whole schedule is one slice
    std::vector<NodeId> ids;  // of its nodes in the schedule's graph
  };
  struct CompiledSlice {
    std::vector<Tensor> places;
    std::unique_ptr<GraphPlan> plan;
  };
  struct Lane {
    std::vector<Tensor> places;  // of the schedule's graph
    std::vector<CompiledSlice> slices;
  };

  Schedule schedule_;
  std::vector<MemoryPlan> memories_;
  std::vector<SliceGraph> slice_graphs_;
  std::vector<Lane> lanes_;
};

/// Fills an input of a prepared graph: a span or vector of its elements.
template <std::ranges::contiguous_range Values>
Result<> set_input(const PreparedGraph& graph, Value input, const Values& values, size_t lane = 0) {
  const Tensor& place = graph.place(input.id(), lane);
  return place.buffer->set(place, 0, std::as_bytes(std::span(values)));
}

/// What happened when in a run, in microseconds from its begin, device by device in the order in which it did. Nodes
/// are those of PreparedGraph::schedule().
struct RunLog {
  struct Slice {
    size_t index;
    double begin_us, us;
  };
  std::vector<Slice> slices;
  std::vector<NodeTime> copies;
  std::vector<NodeTime> nodes;  // of devices that can tell

  void append(const RunLog& other);
};

/// Sees a watched node (of PreparedGraph::graph()) and its value while the run goes on behind it; an error ends the
/// run.
using SeeNode = std::function<Result<>(NodeId, const Tensor&)>;

class Executor {
 public:
  /// The backends must outlive the executor.
  explicit Executor(Backend& backend) : Executor({&backend}, {}) {}
  /// In order of priority, not empty; the last takes what no other does (sched/assign.h). What options.watch names can
  /// be seen by run(). Each lane takes the values' bytes anew.
  Executor(std::vector<Backend*> backends, ScheduleOptions options, size_t n_lanes = 1);
  Executor(const Executor&) = delete;
  ~Executor();

  const std::vector<const Device*>& devices() const { return devices_; }
  /// The memories that values lie in: of the backends, each once.
  const std::vector<const BufferType*>& memories() const { return memories_; }

  /// How a graph would run here. Errors: those of assign().
  Result<Schedule> schedule(Graph graph) const { return make_schedule(std::move(graph), devices_, options_); }

  /// What the largest of these graphs takes, by memory: the sizes of the compute buffers that hold each of them.
  /// Allocates nothing.
  Result<std::vector<ComputeBytes>> measure(std::span<const Graph> graphs) const;

  /// Allocates the compute buffers for the largest shapes that will be run, once, before anything is prepared. A later
  /// graph of the same nodes with smaller values always fits.
  Result<> reserve(std::span<const Graph> largest);
  /// By memory.
  std::vector<size_t> reserved_bytes() const;

  /// Places and compiles a graph, for the first n_lanes lanes. Errors: limit when it does not fit what was reserved;
  /// those of assign().
  Result<std::unique_ptr<PreparedGraph>> prepare(Graph graph, size_t n_lanes = 1);

  /// On lane 0, while nothing that was started goes on. Errors: those of Backend::run and of copies between devices.
  Result<> run(PreparedGraph& prepared, const CancelToken* cancel);
  /// The same slice by slice, and shows the watched nodes as they are made.
  Result<> run(PreparedGraph& prepared, const CancelToken* cancel, const SeeNode& see) {
    return see ? run_in_order(prepared, cancel, see, nullptr) : run(prepared, cancel);
  }
  /// The same as the first, and tells when what happened.
  Result<RunLog> run_logged(PreparedGraph& prepared, const CancelToken* cancel);

  /// Begins a run on a lane of which none goes on, with the inputs and snapshots of now; the graph, the inputs' places
  /// and the token stay untouched until finish(). Errors: out_of_memory (no threads).
  Result<> start(PreparedGraph& prepared, size_t lane, const CancelToken* cancel) {
    return start(prepared, lane, cancel, nullptr);
  }
  /// Waits for the end of the run on a lane, if one goes on. Errors: those of the run.
  Result<> finish(size_t lane);

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
  // Where a run is logged that began then; null: nowhere.
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
  Tensor place_of(const PreparedGraph& prepared, NodeId id, size_t lane) const;
  Result<> compile(PreparedGraph& prepared, PreparedGraph::Lane& lane) const;
  Result<> take_snapshots(PreparedGraph& prepared, size_t lane) const;
  Result<> copy_inputs(PreparedGraph& prepared, size_t lane, size_t slice, const LogPart& log) const;
  Result<> compute(PreparedGraph& prepared, size_t lane, size_t slice, const CancelToken* cancel,
                   const LogPart& log) const;
  Result<> run_all(PreparedGraph& prepared, const CancelToken* cancel, RunLog* log);
  Result<> run_in_order(PreparedGraph& prepared, const CancelToken* cancel, const SeeNode& see, RunLog* log);
  Result<> start(PreparedGraph& prepared, size_t lane, const CancelToken* cancel, RunLog* log);
  void run_in_flight(size_t lane, size_t slice);

  std::vector<Backend*> backends_;
  std::vector<const Device*> devices_;
  std::vector<const BufferType*> memories_;
  std::vector<size_t> memory_of_;  // by backend
  ScheduleOptions options_;
  Sizes reserved_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // by memory
  std::vector<Planned> largest_;

  // A run that was started.
  struct Flight {
    PreparedGraph* prepared = nullptr;  // null: none
    const CancelToken* cancel = nullptr;
    RunLog* log = nullptr;
    Clock::time_point begin{};
    std::vector<uint32_t> n_ended, n_copied;  // slices, by device
    size_t n_done = 0;                        // slices that have ended, of all
    std::optional<Error> error{};
  };
  std::mutex mutex_;  // of flights_
  std::condition_variable changed_;
  std::vector<Flight> flights_;                   // by lane
  std::vector<std::unique_ptr<Stream>> streams_;  // by backend; made for the first start()
};

}  // namespace tessera
