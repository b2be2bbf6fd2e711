#include "tessera/sched/executor.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera {

namespace {

Result<size_t> padded(const BufferType& type, size_t bytes) {
  const auto rounded = checked_round_up(bytes, type.alignment());
  if (!rounded) return fail(ErrorCode::limit, "compute buffer: size overflows");
  return *rounded;
}

// Whether every value of a schedule fits in the range of the same node in the plan of the reference. If so, that plan
// is valid for the schedule too, because lifetimes depend only on the nodes and their memories.
bool fits_plan_of(const Schedule& schedule, const Schedule& reference, const std::vector<size_t>& memory_of) {
  const Graph &graph = schedule.graph, &larger = reference.graph;
  if (graph.size() != larger.size()) return false;
  const auto memory_in = [&](const Schedule& s, NodeId id) { return memory_of[to_size(s.assignment.device(id))]; };
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node &a = graph[id], &b = larger[id];
    const bool same_node = a.op == b.op && a.alias_of == b.alias_of && std::ranges::equal(a.inputs(), b.inputs()) &&
                           memory_in(schedule, id) == memory_in(reference, id);
    const bool is_stored = a.alias_of == kNoNode;
    const bool begins_alike = (graph.storage_offset(id) == 0) == (larger.storage_offset(id) == 0);
    if (!same_node || !begins_alike ||
        (is_stored && span_bytes(a.spec.dtype, a.spec.layout) > span_bytes(b.spec.dtype, b.spec.layout)))
      return false;
  }
  return true;
}

// The plan of a reference for a graph that fits it. Views may begin elsewhere in their values than in the reference.
MemoryPlan plan_as(const MemoryPlan& reference, const Graph& graph) {
  MemoryPlan plan = reference;
  for (NodeId id = 0; id < graph.size(); ++id)
    if (const size_t at = reference.offsets[to_size(graph.storage(id))]; at != MemoryPlan::kElsewhere)
      plan.offsets[to_size(id)] = at + graph.storage_offset(id);
  return plan;
}

}  // namespace

void RunLog::append(const RunLog& other) {
  slices.insert(slices.end(), other.slices.begin(), other.slices.end());
  copies.insert(copies.end(), other.copies.begin(), other.copies.end());
  nodes.insert(nodes.end(), other.nodes.begin(), other.nodes.end());
}

Executor::Executor(std::vector<Backend*> backends, ScheduleOptions options, size_t n_pipeline_slots)
    : backends_(std::move(backends)), options_(std::move(options)), runs_(n_pipeline_slots) {
  for (const Backend* backend : backends_) {
    const Device& device = backend->device();
    devices_.push_back(&device);
    const auto found = std::ranges::find(memories_, &device.buffer_type());
    memory_of_.push_back(to_size(found - memories_.begin()));
    if (found == memories_.end()) memories_.push_back(&device.buffer_type());
  }
  reserved_ = {std::vector<size_t>(memories_.size()), std::vector<size_t>(backends_.size())};
}

Executor::~Executor() {
  streams_.clear();  // runs in flight use all other members
}

Result<Executor::Planned> Executor::plan(Graph graph) const {
  Planned planned;
  TESSERA_ASSIGN(planned.schedule, make_schedule(std::move(graph), devices_, options_));
  const Assignment& assignment = planned.schedule.assignment;
  for (size_t m = 0; m < memories_.size(); ++m) {
    const auto is_here = [&](NodeId id) { return memory_of_[to_size(assignment.device(id))] == m; };
    TESSERA_ASSIGN(MemoryPlan memory, plan_memory(planned.schedule.graph, memories_[m]->alignment(), is_here));
    planned.memories.push_back(std::move(memory));
  }
  return planned;
}

Result<std::vector<Executor::Planned>> Executor::plan_all(std::span<const Graph> graphs) const {
  std::vector<Planned> all;
  for (const Graph& graph : graphs) {
    TESSERA_ASSIGN(Planned one, plan(graph));
    all.push_back(std::move(one));
  }
  return all;
}

Result<size_t> Executor::work_of_graph(size_t backend, const Graph& graph) const {
  TESSERA_ASSIGN(const size_t work, backends_[backend]->work_bytes(graph));
  return padded(*memories_[memory_of_[backend]], work);
}

Result<Executor::Sizes> Executor::sizes(const Planned& planned) const {
  Sizes sizes{{}, std::vector<size_t>(backends_.size())};
  for (size_t m = 0; m < memories_.size(); ++m) {
    TESSERA_ASSIGN(const size_t values, padded(*memories_[m], planned.memories[m].bytes));
    sizes.values.push_back(values);
  }
  const Schedule& schedule = planned.schedule;
  if (schedule.ids.empty()) {
    TESSERA_ASSIGN(sizes.work[0], work_of_graph(0, schedule.graph));
    return sizes;
  }
  for (const Slice& slice : schedule.slices) {
    const auto b = to_size(slice.device);
    std::vector<NodeId> ids;
    const Graph graph = slice_graph(schedule, slice, ids);
    TESSERA_ASSIGN(const size_t work, work_of_graph(b, graph));
    sizes.work[b] = std::max(sizes.work[b], work);
    // A device without memory of its own may support only large shapes. The primary device of its memory then runs
    // the smaller graphs, and needs scratch for them too.
    const auto found = std::ranges::find(devices_, &memories_[memory_of_[b]]->device());
    const auto primary = to_size(found - devices_.begin());
    if (primary == b || found == devices_.end()) continue;
    if (const auto bytes = work_of_graph(primary, graph)) sizes.work[primary] = std::max(sizes.work[primary], *bytes);
  }
  return sizes;
}

Result<Executor::Sizes> Executor::largest_sizes(std::span<const Planned> planned) const {
  Sizes most{std::vector<size_t>(memories_.size()), std::vector<size_t>(backends_.size())};
  for (const Planned& one : planned) {
    TESSERA_ASSIGN(const Sizes sizes, this->sizes(one));
    std::ranges::transform(most.values, sizes.values, most.values.begin(), std::ranges::max);
    std::ranges::transform(most.work, sizes.work, most.work.begin(), std::ranges::max);
  }
  std::vector<size_t> totals;
  for (const size_t values : most.values) {
    const auto all_slots = checked_mul(values, runs_.size());
    if (!all_slots) return fail(ErrorCode::limit, "compute buffer: size overflows");
    totals.push_back(*all_slots);
  }
  for (size_t b = 0; b < backends_.size(); ++b) {
    size_t& total = totals[memory_of_[b]];
    const auto sum = checked_add(total, most.work[b]);
    if (!sum) return fail(ErrorCode::limit, "compute buffer: size overflows");
    total = *sum;
  }
  return most;
}

std::vector<ComputeBytes> Executor::by_memory(const Sizes& sizes) const {
  std::vector<ComputeBytes> bytes;
  for (size_t m = 0; m < memories_.size(); ++m) bytes.push_back({memories_[m], sizes.values[m] * runs_.size(), 0});
  for (size_t b = 0; b < backends_.size(); ++b) bytes[memory_of_[b]].work += sizes.work[b];
  return bytes;
}

Result<std::vector<ComputeBytes>> Executor::measure(std::span<const Graph> graphs) const {
  TESSERA_ASSIGN(const std::vector<Planned> planned, plan_all(graphs));
  TESSERA_ASSIGN(const Sizes sizes, largest_sizes(planned));
  return by_memory(sizes);
}

Result<> Executor::reserve(std::span<const Graph> largest) {
  TESSERA_ASSIGN(largest_, plan_all(largest));
  TESSERA_ASSIGN(reserved_, largest_sizes(largest_));
  for (const ComputeBytes& bytes : by_memory(reserved_)) {
    TESSERA_ASSIGN(auto buffer, bytes.memory->allocate(bytes.total(), BufferUsage::compute));
    buffers_.push_back(std::move(buffer));
  }
  return {};
}

std::vector<size_t> Executor::reserved_bytes() const {
  std::vector<size_t> bytes(memories_.size());
  for (size_t m = 0; m < buffers_.size(); ++m) bytes[m] = buffers_[m]->size();
  return bytes;
}

// Best fit is not monotone: the plan of a smaller graph can exceed the reserved bytes. Such a graph uses the plan of
// the largest graph.
Result<Executor::Planned> Executor::plan_into_reserved(Graph graph) const {
  TESSERA_ASSIGN(Planned own, plan(std::move(graph)));
  size_t full = 0;
  while (full < memories_.size() && own.memories[full].bytes <= reserved_.values[full]) ++full;
  if (full == memories_.size()) return own;
  for (const Planned& reference : largest_)
    if (fits_plan_of(own.schedule, reference.schedule, memory_of_)) {
      for (size_t m = 0; m < memories_.size(); ++m)
        own.memories[m] = plan_as(reference.memories[m], own.schedule.graph);
      return own;
    }
  return fail(ErrorCode::limit, "compute buffer: the graph takes {} bytes, {} are reserved", own.memories[full].bytes,
              reserved_.values[full]);
}

// A compute buffer holds the values of each pipeline slot, then the scratch of each backend that uses this memory.
BufferRange Executor::work_of(size_t backend) const {
  if (reserved_.work[backend] == 0) return {};
  const size_t m = memory_of_[backend];
  size_t offset = reserved_.values[m] * runs_.size();
  for (size_t b = 0; b < backend; ++b)
    if (memory_of_[b] == m) offset += reserved_.work[b];
  return {buffers_[m].get(), offset, reserved_.work[backend]};
}

Tensor Executor::tensor_of(const PreparedGraph& prepared, NodeId id, size_t pipeline_slot) const {
  const Graph& graph = prepared.schedule_.graph;
  const NodeId storage = graph.storage(id);
  Tensor tensor{graph[id].spec, graph[id].name};
  if (const Tensor* stored = graph[storage].tensor; stored != nullptr) {
    tensor.buffer_type = stored->buffer_type;
    tensor.buffer = stored->buffer;
    tensor.offset = stored->offset + graph.storage_offset(id);
  } else {
    const size_t m = memory_of_[to_size(prepared.schedule_.assignment.device(storage))];
    tensor.buffer_type = memories_[m];
    tensor.buffer = m < buffers_.size() ? buffers_[m].get() : nullptr;
    tensor.offset = pipeline_slot * reserved_.values[m] + prepared.memories_[m].offsets[to_size(id)];
  }
  return tensor;
}

Result<std::unique_ptr<PreparedGraph>> Executor::prepare(Graph graph, size_t n_pipeline_slots) {
  auto prepared = std::make_unique<PreparedGraph>();
  TESSERA_ASSIGN(Planned planned, plan_into_reserved(std::move(graph)));
  prepared->schedule_ = std::move(planned.schedule);
  prepared->memories_ = std::move(planned.memories);
  const Schedule& schedule = prepared->schedule_;
  if (!schedule.ids.empty()) {
    prepared->slice_graphs_.resize(schedule.slices.size());
    for (size_t i = 0; i < schedule.slices.size(); ++i)
      prepared->slice_graphs_[i].graph = slice_graph(schedule, schedule.slices[i], prepared->slice_graphs_[i].ids);
  }
  prepared->slots_.resize(std::min(n_pipeline_slots, runs_.size()));
  for (size_t slot = 0; slot < prepared->slots_.size(); ++slot) {
    PreparedGraph::BoundGraph& bound = prepared->slots_[slot];
    for (NodeId id = 0; id < schedule.graph.size(); ++id) bound.tensors.push_back(tensor_of(*prepared, id, slot));
    TESSERA_TRY(compile(*prepared, bound));
  }
  return prepared;
}

Result<> Executor::compile(PreparedGraph& prepared, PreparedGraph::BoundGraph& bound) const {
  const Schedule& schedule = prepared.schedule_;
  bound.slices.resize(schedule.slices.size());
  for (size_t i = 0; i < schedule.slices.size(); ++i) {
    const auto b = to_size(schedule.slices[i].device);
    PreparedGraph::CompiledSlice& slice = bound.slices[i];
    if (schedule.ids.empty()) {
      TESSERA_ASSIGN(slice.plan, backends_[b]->compile(schedule.graph, bound.tensors, work_of(b)));
      continue;
    }
    const auto& [graph, ids] = prepared.slice_graphs_[i];
    for (const NodeId id : ids) slice.tensors.push_back(bound.tensors[to_size(id)]);
    TESSERA_ASSIGN(slice.plan, backends_[b]->compile(graph, slice.tensors, work_of(b)));
  }
  return {};
}

Result<> Executor::take_snapshots(PreparedGraph& prepared, size_t pipeline_slot) const {
  for (const Snapshot& snapshot : prepared.schedule_.snapshots) {
    const Tensor& to = prepared.scheduled_tensor(snapshot.input, pipeline_slot);
    TESSERA_TRY(to.buffer->copy(*snapshot.tensor, to));
  }
  return {};
}

Result<> Executor::copy_inputs(PreparedGraph& prepared, size_t slice, size_t pipeline_slot, const LogPart& log) const {
  for (const NodeId copy : prepared.schedule_.slices[slice].copies) {
    const double begin = log.us();
    const Tensor& to = prepared.scheduled_tensor(copy, pipeline_slot);
    const NodeId source = prepared.schedule_.graph[copy].sources[0];
    TESSERA_TRY(to.buffer->copy(prepared.scheduled_tensor(source, pipeline_slot), to));
    if (log.to != nullptr) log.to->copies.push_back({copy, begin, log.us() - begin});
  }
  return {};
}

Result<> Executor::compute(PreparedGraph& prepared, size_t slice, const GraphRunOptions& options,
                           const LogPart& log) const {
  Backend& backend = *backends_[to_size(prepared.schedule_.slices[slice].device)];
  GraphPlan& plan = *prepared.slots_[options.pipeline_slot].slices[slice].plan;
  if (log.to == nullptr) return backend.run(plan, options.cancel);
  const double begin = log.us();
  auto times = backend.run_timed(plan, options.cancel);
  if (!times && times.error().code() == ErrorCode::unsupported) {
    TESSERA_TRY(backend.run(plan, options.cancel));
    times = std::vector<NodeTime>();
  }
  if (!times) return forward_error(times);
  log.to->slices.push_back({slice, begin, log.us() - begin});
  for (NodeTime& time : *times) {
    if (!prepared.slice_graphs_.empty()) time.node = prepared.slice_graphs_[slice].ids[to_size(time.node)];
    time.begin_us += begin;
    log.to->nodes.push_back(time);
  }
  return {};
}

Result<> Executor::run(PreparedGraph& prepared, const GraphRunOptions& options) {
  if (prepared.schedule_.overlaps && !options.observe) {
    TESSERA_TRY(start(prepared, options));
    return wait(options.pipeline_slot);
  }
  const std::vector<Slice>& slices = prepared.schedule_.slices;
  if (options.log != nullptr) *options.log = {};
  const LogPart log{options.log, Clock::now()};
  TESSERA_TRY(take_snapshots(prepared, options.pipeline_slot));
  for (size_t i = 0; i < slices.size(); ++i) {
    TESSERA_TRY(copy_inputs(prepared, i, options.pipeline_slot, log));
    TESSERA_TRY(compute(prepared, i, options, log));
    if (const NodeId watched = slices[i].watched; options.observe && watched != kNoNode)
      TESSERA_TRY(options.observe(watched, prepared.tensor(watched, options.pipeline_slot)));
  }
  return {};
}

Result<> Executor::start(PreparedGraph& prepared, const GraphRunOptions& options) {
  while (streams_.size() < backends_.size()) {
    TESSERA_ASSIGN(auto stream, Stream::create());
    streams_.push_back(std::move(stream));
  }
  {
    std::unique_lock lock(mutex_);
    const auto may_overlap = [&](const InFlightRun& other) {
      const bool is_over = other.prepared == nullptr || other.n_done == other.prepared->schedule_.slices.size();
      return is_over || !(prepared.schedule_.copies_state || other.prepared->schedule_.copies_state);
    };
    changed_.wait(lock, [&] { return std::ranges::all_of(runs_, may_overlap); });
  }
  TESSERA_TRY(take_snapshots(prepared, options.pipeline_slot));
  if (options.log != nullptr) *options.log = {};
  {
    const std::lock_guard lock(mutex_);
    InFlightRun& run = runs_[options.pipeline_slot];
    run.prepared = &prepared;
    run.options = options;
    run.begin = Clock::now();
    run.n_done = 0;
    run.n_ended.assign(backends_.size(), 0);
    run.n_copied.assign(backends_.size(), 0);
  }
  for (size_t i = 0; i < prepared.schedule_.slices.size(); ++i)
    streams_[to_size(prepared.schedule_.slices[i].device)]->post(
        [this, slot = options.pipeline_slot, i] { run_when_ready(slot, i); });
  return {};
}

// Called on the stream of the slice's backend. Streams run slices in the order of the starts, and a slice waits only
// for earlier slices. So the first unfinished slice can always proceed.
void Executor::run_when_ready(size_t pipeline_slot, size_t slice) {
  std::unique_lock lock(mutex_);
  InFlightRun& run = runs_[pipeline_slot];
  PreparedGraph& prepared = *run.prepared;
  const Slice& planned = prepared.schedule_.slices[slice];
  const auto device = to_size(planned.device);
  changed_.wait(lock, [&] {
    return std::ranges::equal(run.n_ended, planned.ended, std::ranges::greater_equal()) &&
           std::ranges::equal(run.n_copied, planned.copied, std::ranges::greater_equal());
  });
  const bool is_needed = !run.error;
  RunLog log;  // of this slice
  const LogPart part{run.options.log == nullptr ? nullptr : &log, run.begin};
  Result<> done;
  if (is_needed) {
    lock.unlock();
    done = copy_inputs(prepared, slice, pipeline_slot, part);
    lock.lock();
  }
  ++run.n_copied[device];
  if (is_needed && done) {
    changed_.notify_all();
    lock.unlock();
    done = compute(prepared, slice, run.options, part);
    lock.lock();
  }
  if (run.options.log != nullptr) run.options.log->append(log);
  if (!done && !run.error) run.error = std::move(done).error();
  ++run.n_ended[device];
  ++run.n_done;
  changed_.notify_all();
}

Result<> Executor::wait(size_t pipeline_slot) {
  std::unique_lock lock(mutex_);
  InFlightRun& run = runs_[pipeline_slot];
  if (run.prepared == nullptr) return {};
  changed_.wait(lock, [&] { return run.n_done == run.prepared->schedule_.slices.size(); });
  run.prepared = nullptr;
  if (!run.error) return {};
  return std::unexpected(*std::exchange(run.error, std::nullopt));
}

}  // namespace tessera
