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

// Whether every value of a schedule fits where the plan of the reference puts the node of the same number: then that
// plan serves, since lifetimes depend on the nodes and their memories alone.
bool fits_plan_of(const Schedule& schedule, const Schedule& reference, const std::vector<size_t>& memory_of) {
  const Graph &graph = schedule.graph, &larger = reference.graph;
  if (graph.size() != larger.size()) return false;
  const auto memory_in = [&](const Schedule& s, NodeId id) {
    return memory_of[static_cast<size_t>(s.assignment.device(id))];
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node &a = graph[id], &b = larger[id];
    const bool same_node = a.op == b.op && a.alias_of == b.alias_of && std::ranges::equal(a.inputs(), b.inputs()) &&
                           memory_in(schedule, id) == memory_in(reference, id);
    if (!same_node || graph.storage_offset(id) != 0 || larger.storage_offset(id) != 0 ||
        span_bytes(a.spec.dtype, a.spec.layout) > span_bytes(b.spec.dtype, b.spec.layout))
      return false;
  }
  return true;
}

}  // namespace

void RunLog::append(const RunLog& other) {
  slices.insert(slices.end(), other.slices.begin(), other.slices.end());
  copies.insert(copies.end(), other.copies.begin(), other.copies.end());
  nodes.insert(nodes.end(), other.nodes.begin(), other.nodes.end());
}

Executor::Executor(std::vector<Backend*> backends, ScheduleOptions options, size_t n_lanes)
    : backends_(std::move(backends)), options_(std::move(options)), flights_(n_lanes) {
  for (const Backend* backend : backends_) {
    const Device& device = backend->device();
    devices_.push_back(&device);
    const auto found = std::ranges::find(memories_, &device.buffer_type());
    memory_of_.push_back(static_cast<size_t>(found - memories_.begin()));
    if (found == memories_.end()) memories_.push_back(&device.buffer_type());
  }
  reserved_ = {std::vector<size_t>(memories_.size()), std::vector<size_t>(backends_.size())};
}

Executor::~Executor() {
  streams_.clear();  // what goes on needs all the rest
}

Result<Executor::Planned> Executor::plan(Graph graph) const {
  Planned planned;
  TESSERA_ASSIGN(planned.schedule, make_schedule(std::move(graph), devices_, options_));
  const Assignment& assignment = planned.schedule.assignment;
  for (size_t m = 0; m < memories_.size(); ++m) {
    const auto is_here = [&](NodeId id) { return memory_of_[static_cast<size_t>(assignment.device(id))] == m; };
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
    const auto b = static_cast<size_t>(slice.device);
    std::vector<NodeId> ids;
    const Graph graph = slice_graph(schedule, slice, ids);
    TESSERA_ASSIGN(const size_t work, work_of_graph(b, graph));
    sizes.work[b] = std::max(sizes.work[b], work);
    // What a device without memory of its own takes may depend on shapes: smaller graphs leave it to that of the
    // memory.
    const auto home = std::ranges::find(devices_, &memories_[memory_of_[b]]->device());
    const auto h = static_cast<size_t>(home - devices_.begin());
    if (h == b || home == devices_.end()) continue;
    if (const auto at_home = work_of_graph(h, graph)) sizes.work[h] = std::max(sizes.work[h], *at_home);
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
    const auto lanes = checked_mul(values, flights_.size());
    if (!lanes) return fail(ErrorCode::limit, "compute buffer: size overflows");
    totals.push_back(*lanes);
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
  for (size_t m = 0; m < memories_.size(); ++m) bytes.push_back({memories_[m], sizes.values[m] * flights_.size(), 0});
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

// Best fit is not monotone: a smaller graph could come out larger than what was reserved for the largest. Then it is
// laid out as the largest is.
Result<Executor::Planned> Executor::plan_into_reserved(Graph graph) const {
  TESSERA_ASSIGN(Planned own, plan(std::move(graph)));
  size_t full = 0;
  while (full < memories_.size() && own.memories[full].bytes <= reserved_.values[full]) ++full;
  if (full == memories_.size()) return own;
  for (const Planned& reference : largest_)
    if (fits_plan_of(own.schedule, reference.schedule, memory_of_)) {
      own.memories = reference.memories;
      return own;
    }
  return fail(ErrorCode::limit, "compute buffer: the graph takes {} bytes, {} are reserved", own.memories[full].bytes,
              reserved_.values[full]);
}

// The values of a memory come first, lane by lane, behind them the scratch of each backend that works there.
BufferRange Executor::work_of(size_t backend) const {
  if (reserved_.work[backend] == 0) return {};
  const size_t m = memory_of_[backend];
  size_t offset = reserved_.values[m] * flights_.size();
  for (size_t b = 0; b < backend; ++b)
    if (memory_of_[b] == m) offset += reserved_.work[b];
  return {buffers_[m].get(), offset, reserved_.work[backend]};
}

Tensor Executor::place_of(const PreparedGraph& prepared, NodeId id, size_t lane) const {
  const Graph& graph = prepared.schedule_.graph;
  const NodeId storage = graph.storage(id);
  Tensor place{.name = graph[id].name, .dtype = graph[id].spec.dtype, .layout = graph[id].spec.layout};
  if (const Tensor* tensor = graph[storage].tensor; tensor != nullptr) {
    place.buffer_type = tensor->buffer_type;
    place.buffer = tensor->buffer;
    place.offset = tensor->offset + graph.storage_offset(id);
  } else {
    const size_t m = memory_of_[static_cast<size_t>(prepared.schedule_.assignment.device(storage))];
    place.buffer_type = memories_[m];
    place.buffer = m < buffers_.size() ? buffers_[m].get() : nullptr;
    place.offset = lane * reserved_.values[m] + prepared.memories_[m].offsets[static_cast<size_t>(id)];
  }
  return place;
}

Result<std::unique_ptr<PreparedGraph>> Executor::prepare(Graph graph, size_t n_lanes) {
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
  prepared->lanes_.resize(std::min(n_lanes, flights_.size()));
  for (size_t l = 0; l < prepared->lanes_.size(); ++l) {
    PreparedGraph::Lane& lane = prepared->lanes_[l];
    for (NodeId id = 0; id < schedule.graph.size(); ++id) lane.places.push_back(place_of(*prepared, id, l));
    TESSERA_TRY(compile(*prepared, lane));
  }
  return prepared;
}

Result<> Executor::compile(PreparedGraph& prepared, PreparedGraph::Lane& lane) const {
  const Schedule& schedule = prepared.schedule_;
  lane.slices.resize(schedule.slices.size());
  for (size_t i = 0; i < schedule.slices.size(); ++i) {
    const auto b = static_cast<size_t>(schedule.slices[i].device);
    PreparedGraph::CompiledSlice& slice = lane.slices[i];
    if (schedule.ids.empty()) {
      TESSERA_ASSIGN(slice.plan, backends_[b]->compile(schedule.graph, lane.places, work_of(b)));
      continue;
    }
    const auto& [graph, ids] = prepared.slice_graphs_[i];
    for (const NodeId id : ids) slice.places.push_back(lane.places[static_cast<size_t>(id)]);
    TESSERA_ASSIGN(slice.plan, backends_[b]->compile(graph, slice.places, work_of(b)));
  }
  return {};
}

Result<> Executor::take_snapshots(PreparedGraph& prepared, size_t lane) const {
  for (const Snapshot& snapshot : prepared.schedule_.snapshots) {
    const Tensor& to = prepared.scheduled_place(snapshot.input, lane);
    TESSERA_TRY(to.buffer->copy(*snapshot.tensor, to));
  }
  return {};
}

Result<> Executor::copy_inputs(PreparedGraph& prepared, size_t lane, size_t slice, const LogPart& log) const {
  for (const NodeId copy : prepared.schedule_.slices[slice].copies) {
    const double begin = log.us();
    const Tensor& to = prepared.scheduled_place(copy, lane);
    TESSERA_TRY(to.buffer->copy(prepared.scheduled_place(prepared.schedule_.graph[copy].sources[0], lane), to));
    if (log.to != nullptr) log.to->copies.push_back({copy, begin, log.us() - begin});
  }
  return {};
}

Result<> Executor::compute(PreparedGraph& prepared, size_t lane, size_t slice, const CancelToken* cancel,
                           const LogPart& log) const {
  Backend& backend = *backends_[static_cast<size_t>(prepared.schedule_.slices[slice].device)];
  GraphPlan& plan = *prepared.lanes_[lane].slices[slice].plan;
  if (log.to == nullptr) return backend.run(plan, cancel);
  const double begin = log.us();
  auto times = backend.run_timed(plan, cancel);
  if (!times && times.error().code() == ErrorCode::unsupported) {
    TESSERA_TRY(backend.run(plan, cancel));
    times = std::vector<NodeTime>();
  }
  if (!times) return forward_error(times);
  log.to->slices.push_back({slice, begin, log.us() - begin});
  for (NodeTime& time : *times) {
    if (!prepared.slice_graphs_.empty()) time.node = prepared.slice_graphs_[slice].ids[static_cast<size_t>(time.node)];
    time.begin_us += begin;
    log.to->nodes.push_back(time);
  }
  return {};
}

Result<> Executor::run(PreparedGraph& prepared, const CancelToken* cancel) {
  return run_all(prepared, cancel, nullptr);
}

Result<RunLog> Executor::run_logged(PreparedGraph& prepared, const CancelToken* cancel) {
  RunLog log;
  TESSERA_TRY(run_all(prepared, cancel, &log));
  return log;
}

Result<> Executor::run_all(PreparedGraph& prepared, const CancelToken* cancel, RunLog* log) {
  if (!prepared.schedule_.overlaps) return run_in_order(prepared, cancel, {}, log);
  TESSERA_TRY(start(prepared, 0, cancel, log));
  return finish(0);
}

Result<> Executor::run_in_order(PreparedGraph& prepared, const CancelToken* cancel, const SeeNode& see, RunLog* log) {
  const std::vector<Slice>& slices = prepared.schedule_.slices;
  const LogPart part{log, Clock::now()};
  TESSERA_TRY(take_snapshots(prepared, 0));
  for (size_t i = 0; i < slices.size(); ++i) {
    TESSERA_TRY(copy_inputs(prepared, 0, i, part));
    TESSERA_TRY(compute(prepared, 0, i, cancel, part));
    if (see && slices[i].watched != kNoNode) TESSERA_TRY(see(slices[i].watched, prepared.place(slices[i].watched)));
  }
  return {};
}

Result<> Executor::start(PreparedGraph& prepared, size_t lane, const CancelToken* cancel, RunLog* log) {
  while (streams_.size() < backends_.size()) {
    TESSERA_ASSIGN(auto stream, Stream::create());
    streams_.push_back(std::move(stream));
  }
  {
    std::unique_lock lock(mutex_);
    const auto may_go_beside = [&](const Flight& other) {
      const bool is_over = other.prepared == nullptr || other.n_done == other.prepared->schedule_.slices.size();
      return is_over || !(prepared.schedule_.copies_state || other.prepared->schedule_.copies_state);
    };
    changed_.wait(lock, [&] { return std::ranges::all_of(flights_, may_go_beside); });
  }
  TESSERA_TRY(take_snapshots(prepared, lane));
  {
    const std::lock_guard lock(mutex_);
    Flight& flight = flights_[lane];
    flight.prepared = &prepared;
    flight.cancel = cancel;
    flight.log = log;
    flight.begin = Clock::now();
    flight.n_done = 0;
    flight.n_ended.assign(backends_.size(), 0);
    flight.n_copied.assign(backends_.size(), 0);
  }
  for (size_t i = 0; i < prepared.schedule_.slices.size(); ++i)
    streams_[static_cast<size_t>(prepared.schedule_.slices[i].device)]->post(
        [this, lane, i] { run_in_flight(lane, i); });
  return {};
}

// On its backend's stream. Streams take slices in the order of their starts and each waits only for those before it, so
// the first that is not done can always go on.
void Executor::run_in_flight(size_t lane, size_t slice) {
  std::unique_lock lock(mutex_);
  Flight& flight = flights_[lane];
  PreparedGraph& prepared = *flight.prepared;
  const CancelToken* cancel = flight.cancel;
  const Slice& planned = prepared.schedule_.slices[slice];
  const auto device = static_cast<size_t>(planned.device);
  changed_.wait(lock, [&] {
    return std::ranges::equal(flight.n_ended, planned.ended, std::ranges::greater_equal()) &&
           std::ranges::equal(flight.n_copied, planned.copied, std::ranges::greater_equal());
  });
  const bool goes_on = !flight.error;
  RunLog log;  // of this slice
  const LogPart part{flight.log == nullptr ? nullptr : &log, flight.begin};
  Result<> done;
  if (goes_on) {
    lock.unlock();
    done = copy_inputs(prepared, lane, slice, part);
    lock.lock();
  }
  ++flight.n_copied[device];
  if (goes_on && done) {
    changed_.notify_all();
    lock.unlock();
    done = compute(prepared, lane, slice, cancel, part);
    lock.lock();
  }
  if (flight.log != nullptr) flight.log->append(log);
  if (!done && !flight.error) flight.error = std::move(done).error();
  ++flight.n_ended[device];
  ++flight.n_done;
  changed_.notify_all();
}

Result<> Executor::finish(size_t lane) {
  std::unique_lock lock(mutex_);
  Flight& flight = flights_[lane];
  if (flight.prepared == nullptr) return {};
  changed_.wait(lock, [&] { return flight.n_done == flight.prepared->schedule_.slices.size(); });
  flight.prepared = nullptr;
  if (!flight.error) return {};
  return std::unexpected(*std::exchange(flight.error, std::nullopt));
}

}  // namespace tessera
