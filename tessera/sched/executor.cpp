#include "tessera/sched/executor.h"

#include <algorithm>

#include "tessera/base/checked.h"

namespace tessera {

namespace {

Result<size_t> padded(const BufferType& type, size_t bytes) {
  const auto rounded = checked_round_up(bytes, type.alignment());
  if (!rounded) return fail(ErrorCode::limit, "compute buffer: size overflows");
  return *rounded;
}

// Whether every value of the graph fits where the plan of the reference puts the node of the same number: then
// that plan serves, since lifetimes depend on the nodes alone.
bool fits_plan_of(const Graph& graph, const Graph& reference) {
  if (graph.size() != reference.size()) return false;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node &a = graph[id], &b = reference[id];
    const bool same_node = a.op == b.op && a.alias_of == b.alias_of && std::ranges::equal(a.inputs(), b.inputs());
    if (!same_node || graph.storage_offset(id) != 0 || reference.storage_offset(id) != 0 ||
        span_bytes(a.spec.dtype, a.spec.layout) > span_bytes(b.spec.dtype, b.spec.layout))
      return false;
  }
  return true;
}

}  // namespace

Result<ComputeBytes> Executor::measure(const Graph& graph) const {
  const BufferType& type = backend_.device().buffer_type();
  TESSERA_ASSIGN(const MemoryPlan plan, plan_memory(graph, type.alignment()));
  TESSERA_ASSIGN(const size_t work, backend_.work_bytes(graph));
  ComputeBytes bytes;
  TESSERA_ASSIGN(bytes.values, padded(type, plan.bytes));
  TESSERA_ASSIGN(bytes.work, padded(type, work));
  return bytes;
}

Result<ComputeBytes> Executor::measure(std::span<const Graph> graphs) const {
  ComputeBytes most;
  for (const Graph& graph : graphs) {
    TESSERA_ASSIGN(const ComputeBytes bytes, measure(graph));
    most = {std::max(most.values, bytes.values), std::max(most.work, bytes.work)};
  }
  if (!checked_add(most.values, most.work)) return fail(ErrorCode::limit, "compute buffer: size overflows");
  return most;
}

Result<> Executor::reserve(std::span<const Graph> largest) {
  TESSERA_ASSIGN(reserved_, measure(largest));
  for (const Graph& graph : largest) {
    TESSERA_ASSIGN(MemoryPlan plan, plan_memory(graph, backend_.device().buffer_type().alignment()));
    largest_.emplace_back(graph, std::move(plan));
  }
  TESSERA_ASSIGN(buffer_, backend_.device().buffer_type().allocate(reserved_.total(), BufferUsage::compute));
  return {};
}

// Best fit is not monotone: a smaller graph could come out larger than what was reserved for the largest. Then
// it is laid out as the largest is.
Result<MemoryPlan> Executor::plan(const Graph& graph) const {
  TESSERA_ASSIGN(MemoryPlan own, plan_memory(graph, backend_.device().buffer_type().alignment()));
  if (own.bytes <= reserved_.values) return own;
  for (const auto& [reference, plan] : largest_)
    if (fits_plan_of(graph, reference)) return plan;
  return fail(ErrorCode::limit, "compute buffer: the graph takes {} bytes, {} are reserved", own.bytes,
              reserved_.values);
}

Result<std::unique_ptr<PreparedGraph>> Executor::prepare(Graph graph) {
  auto prepared = std::make_unique<PreparedGraph>();
  TESSERA_ASSIGN(prepared->memory_, plan(graph));
  prepared->graph_ = std::move(graph);
  const Graph& g = prepared->graph_;
  prepared->places_.reserve(static_cast<size_t>(g.size()));
  for (NodeId id = 0; id < g.size(); ++id) {
    const Node& storage = g[g.storage(id)];
    Tensor place{.name = g[id].name, .dtype = g[id].spec.dtype, .layout = g[id].spec.layout};
    if (storage.op == Op::tensor) {
      place.buffer_type = storage.tensor->buffer_type;
      place.buffer = storage.tensor->buffer;
      place.offset = storage.tensor->offset + g.storage_offset(id);
    } else {
      place.buffer_type = &backend_.device().buffer_type();
      place.buffer = buffer_.get();
      place.offset = prepared->memory_.offsets[static_cast<size_t>(id)];
    }
    prepared->places_.push_back(std::move(place));
  }
  // The graph's values first, the backend's scratch behind them.
  std::span<std::byte> work;
  if (reserved_.work != 0) work = {buffer_->base() + reserved_.values, reserved_.work};
  TESSERA_ASSIGN(prepared->plan_, backend_.compile(g, prepared->places_, work));
  return prepared;
}

}  // namespace tessera
