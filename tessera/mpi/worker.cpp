#include "tessera/mpi/worker.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/file.h"
#include "tessera/base/index.h"
#include "tessera/base/stream.h"
#include "tessera/mpi/file_samples.h"
#include "tessera/mpi/handshake.h"
#include "tessera/mpi/worker_copies.h"

namespace tessera::mpi {

namespace {

constexpr int kClientRank = 0;
constexpr size_t kLoaders = 8;
constexpr std::chrono::milliseconds kStopPoll{20};

using Answer = Result<Message>;

std::vector<int> other_ranks(const Transport& transport) {
  std::vector<int> ranks;
  for (int rank = 0; rank < transport.n_ranks(); ++rank)
    if (rank != transport.rank()) ranks.push_back(rank);
  return ranks;
}

// Bytes that a tensor has in a buffer. Errors: as BufferType::tensor_bytes(); invalid_argument (gaps between elements
// in memory that is no plain memory).
Result<size_t> bytes_in(const BufferType& type, const TensorSpec& spec) {
  if (is_contiguous(spec.dtype, spec.layout)) return type.tensor_bytes(spec.dtype, spec.shape());
  if (!type.is_host()) return fail(ErrorCode::invalid_argument, "a view with gaps in {}", type.name());
  return span_bytes(spec.dtype, spec.layout);
}

Result<> require_inside(const Buffer& buffer, size_t offset, size_t bytes, size_t alignment) {
  if (offset > buffer.size() || bytes > buffer.size() - offset)
    return fail(ErrorCode::invalid_argument, "bytes {} to {} of a buffer of {}", offset, offset + bytes, buffer.size());
  if (offset % alignment != 0)
    return fail(ErrorCode::invalid_argument, "offset {}, want a multiple of {}", offset, alignment);
  return {};
}

Result<> require_inside(const Buffer& buffer, const TensorSpec& spec, size_t offset) {
  TESSERA_ASSIGN(const size_t bytes, bytes_in(buffer.type(), spec));
  const DTypeInfo& row = info(spec.dtype);
  const size_t element = row.is_blocked() ? 1 : to_size(row.block_bytes);
  return require_inside(buffer, offset, bytes, buffer.type().is_host() ? element : buffer.type().alignment());
}

// A graph that is bound to memory. Holds what the plan needs, which is destroyed first.
struct BoundPlan {
  Graph graph;
  std::deque<Tensor> leaves;
  std::vector<Tensor> tensors;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::unique_ptr<GraphPlan> plan;
};

// A backend and the thread of its work. Requests that name it run there, one after another.
struct OpenBackend {
  const Device* device = nullptr;
  std::vector<const BufferType*> types;
  std::unique_ptr<Backend> backend;
  std::map<uint64_t, std::unique_ptr<BoundPlan>> plans;  // used by the stream alone
  std::unique_ptr<Stream> stream;                        // destroyed first: its tasks use the rest
};

class Worker {
 public:
  Worker(const WorkerOptions& options, Transport& transport)
      : options_(options), link_(transport, other_ranks(transport), options.link) {}

  Result<> serve() {
    TESSERA_ASSIGN(memory_stream_, Stream::create());
    for (auto& loader : loaders_) {
      TESSERA_ASSIGN(loader, Stream::create());
    }
    TESSERA_TRY(link_.start({.received =
                                 [this](int from, std::vector<std::byte> bytes) {
                                   if (from == kClientRank)
                                     receive(std::move(bytes));
                                   else
                                     receive_copy(from, std::move(bytes));
                                 },
                             .ended =
                                 [this](int rank, const std::optional<Error>& why) {
                                   if (rank == kClientRank)
                                     end(why);
                                   else
                                     end_copies(rank, why);
                                 }}));
    std::unique_lock lock(mutex_);
    const auto is_stopped = [&] { return options_.stop != nullptr && options_.stop->cancelled(); };
    std::optional<Clock::time_point> stop_by;
    while (!has_ended_ && (!stop_by || Clock::now() < *stop_by)) {
      changed_.wait_for(lock, kStopPoll);
      if (is_stopped() && !stop_by) stop_by = Clock::now() + options_.grace;
    }
    is_stopping_ = true;
    for (const auto& [request, token] : runs_) token->cancel();
    lock.unlock();
    // Waits for requests that are under way. Their threads use the link.
    memory_stream_.reset();
    for (auto& loader : loaders_) loader.reset();
    backends_.clear();
    if (lost_) return std::unexpected(*lost_);
    if (!has_ended_) return fail(ErrorCode::cancelled, "the worker was stopped");
    return {};
  }

 private:
  // --- on the thread of the link

  void receive(std::vector<std::byte> bytes) {
    auto request = std::make_shared<ReceivedMessage>();
    request->bytes = std::move(bytes);
    auto envelope = decode(request->bytes);
    if (!envelope) return link_.give_up(kClientRank, std::move(envelope).error());
    request->envelope = std::move(*envelope);
    const uint64_t number = request->envelope.request;
    if (const auto* cancel = std::get_if<CancelRequest>(&request->envelope.message)) return cancel_run(cancel->request);
    if (const auto* copy = std::get_if<ReceiveCopyRequest>(&request->envelope.message)) {
      const auto gone = gone_.find(static_cast<int>(copy->from_rank));
      if (gone != gone_.end()) return answer(number, std::unexpected(gone->second));
      return post_copy(copies_.add_request(std::move(request)));
    }
    if (is_quick(request->envelope.message)) return handle_quickly(request->envelope);
    auto token = std::make_shared<CancelToken>();
    const bool is_run = std::holds_alternative<RunRequest>(request->envelope.message);
    uint64_t backend = 0;
    const bool names_backend = backend_of(request->envelope.message, backend);
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    if (is_run) runs_[number] = token;
    const auto found = backends_.find(backend);
    OpenBackend* open = names_backend && found != backends_.end() ? found->second.get() : nullptr;
    const bool loads = std::holds_alternative<LoadRequest>(request->envelope.message);
    Stream& stream = loads ? *loaders_[number % loaders_.size()] : open == nullptr ? *memory_stream_ : *open->stream;
    stream.post([this, request, token, open, number] {
      answer(number,
             std::visit([&](const auto& message) { return handle(message, open, *token); }, request->envelope.message));
      const std::lock_guard ended(mutex_);
      runs_.erase(number);
    });
  }

  // Whether a request copies few bytes of plain memory. The thread of the link does this itself, because waking another
  // thread takes longer. Rank 0 has waited for the answers to all requests on which these bytes depend.
  bool is_quick(const Message& message) {
    const auto fits = [&](const WireTensor& tensor, uint64_t n) {
      const auto buffer = find_buffer(tensor.buffer);
      return n <= kQuickBytes && buffer && (*buffer)->type().is_host();
    };
    if (const auto* set = std::get_if<SetRequest>(&message)) return fits(set->tensor, set->bytes.size());
    if (const auto* get = std::get_if<GetRequest>(&message)) return fits(get->tensor, get->n);
    if (const auto* copy = std::get_if<SendCopyRequest>(&message)) {
      const auto spec = from_wire(copy->from.spec);
      return spec && fits(copy->from, span_bytes(spec->dtype, spec->layout));
    }
    return false;
  }

  void handle_quickly(const Envelope& envelope) {
    if (const auto* set = std::get_if<SetRequest>(&envelope.message))
      return answer(envelope.request, handle(*set, nullptr, never_));
    if (const auto* get = std::get_if<GetRequest>(&envelope.message))
      return answer(envelope.request, read(*get, quick_bytes_));
    answer(envelope.request, send_copy(std::get<SendCopyRequest>(envelope.message), quick_bytes_));
  }

  Result<> take_deferred() {
    const std::lock_guard lock(mutex_);
    if (auto error = std::exchange(deferred_, std::nullopt)) return std::unexpected(std::move(*error));
    return {};
  }

  // The backend on whose thread a request runs. The end of a backend is no such request.
  static bool backend_of(const Message& message, uint64_t& backend) {
    const auto take = [&](const auto* request) {
      if (request != nullptr) backend = request->backend;
      return request != nullptr;
    };
    return take(std::get_if<WorkBytesRequest>(&message)) || take(std::get_if<CompileRequest>(&message)) ||
           take(std::get_if<FreePlanRequest>(&message)) || take(std::get_if<RunRequest>(&message));
  }

  void cancel_run(uint64_t request) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto run = runs_.find(request); run != runs_.end()) run->second->cancel();
    }
    if (copies_.cancel(request)) answer(request, fail(ErrorCode::cancelled, "the copy was cancelled"));
  }

  void receive_copy(int from, std::vector<std::byte> bytes) {
    auto data = std::make_shared<ReceivedMessage>();
    data->bytes = std::move(bytes);
    auto envelope = decode(data->bytes);
    if (!envelope) return link_.give_up(from, std::move(envelope).error());
    data->envelope = std::move(*envelope);
    if (!std::holds_alternative<CopyMessage>(data->envelope.message))
      return link_.give_up(from, Error(ErrorCode::format, "a message that a worker does not take"));
    post_copy(copies_.add_data(from, std::move(data)));
  }

  // Another worker is lost, or has ended. Nothing that it should have sent will come.
  void end_copies(int rank, const std::optional<Error>& why) {
    const Error error = why ? *why : Error(ErrorCode::io, link_.name_of(rank) + " has ended");
    for (const uint64_t request : copies_.cancel_from(rank)) answer(request, std::unexpected(error));
    gone_.emplace(rank, error);
  }

  void post_copy(std::optional<WorkerCopies::Copy> copy) {
    if (!copy) return;
    const auto& to = std::get<ReceiveCopyRequest>(copy->request->envelope.message).to;
    const auto& data = std::get<CopyMessage>(copy->data->envelope.message);
    const auto buffer = find_buffer(to.buffer);
    if (data.bytes.size() <= kQuickBytes && buffer && (*buffer)->type().is_host())
      return answer(copy->request->envelope.request, take_copy(*copy));
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    memory_stream_->post([this, copy = std::move(*copy)] { answer(copy.request->envelope.request, take_copy(copy)); });
  }

  void end(const std::optional<Error>& why) {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
      lost_ = why;
      for (const auto& [request, token] : runs_) token->cancel();
    }
    changed_.notify_all();
  }

  // --- on the threads of streams

  // Messages with number 0 have no answer. Their error is that of the next run.
  void answer(uint64_t request, const Answer& done) {
    if (request == 0) {
      const std::lock_guard lock(mutex_);
      if (!done && !deferred_) deferred_ = done.error();
      return;
    }
    const Message message = done ? *done : Message(ErrorAnswer{done.error().code(), done.error().message()});
    if (auto sent = link_.send(kClientRank, encode({request, message})); !sent) return;
  }

  Answer handle(const HelloRequest& hello, OpenBackend*, CancelToken&) {
    TESSERA_TRY(require_same(options_.identity, hello.identity));
    if (!devices_.empty()) return fail(ErrorCode::invalid_argument, "a second greeting");
    link_.set_timeout(std::chrono::milliseconds(hello.timeout_ms));
    TESSERA_ASSIGN(devices_, options_.find_devices(hello.isas));
    WelcomeAnswer welcome{options_.identity, {}};
    for (const auto& device : devices_) {
      WireDevice wire{std::string(device->name()), device->description(), device->kind(), {}, {}};
      for (auto& [name, value] : device->properties()) wire.properties.push_back({name, value});
      for (const BufferType* type : device->buffer_types())
        wire.types.push_back({std::string(type->name()), type->alignment(), type->max_size()});
      welcome.devices.push_back(std::move(wire));
    }
    return welcome;
  }

  Answer handle(const MemoryRequest& request, OpenBackend*, CancelToken&) {
    TESSERA_ASSIGN(const Device* device, find_device(request.device));
    const DeviceMemory memory = device->memory();
    return MemoryAnswer{memory.total_bytes, memory.free_bytes};
  }

  Answer handle(const AllocateRequest& request, OpenBackend*, CancelToken&) {
    TESSERA_ASSIGN(const Device* device, find_device(request.device));
    const std::vector<const BufferType*> types = device->buffer_types();
    if (request.type >= types.size())
      return fail(ErrorCode::invalid_argument, "memory {}, want one of {}", request.type, types.size());
    const BufferType& type = *types[request.type];
    if (request.bytes > type.max_size())
      return fail(ErrorCode::out_of_memory, "{}: {} bytes, its largest buffer has {}", type.name(), request.bytes,
                  type.max_size());
    TESSERA_ASSIGN(auto buffer, type.allocate(request.bytes, request.usage));
    const std::lock_guard lock(mutex_);
    buffers_[next_] = std::move(buffer);
    return DoneAnswer{next_++};
  }

  Answer handle(const FreeRequest& request, OpenBackend*, CancelToken&) {
    std::shared_ptr<Buffer> last;  // freed without the lock
    const std::lock_guard lock(mutex_);
    if (auto node = buffers_.extract(request.buffer)) last = std::move(node.mapped());
    return DoneAnswer{};
  }

  Answer handle(const SetRequest& request, OpenBackend*, CancelToken&) {
    std::shared_ptr<Buffer> buffer;
    TESSERA_ASSIGN(const Tensor tensor, tensor_of(request.tensor, buffer));
    TESSERA_TRY(require_range(tensor, request.offset, request.bytes.size(), file_bytes(tensor)));
    TESSERA_TRY(buffer->set(tensor, request.offset, request.bytes));
    return DoneAnswer{request.bytes.size()};
  }

  Answer handle(const GetRequest& request, OpenBackend*, CancelToken&) { return read(request, got_); }

  // got: memory of the calling thread, which answers before it handles another request.
  Answer read(const GetRequest& request, std::vector<std::byte>& got) {
    std::shared_ptr<Buffer> buffer;
    TESSERA_ASSIGN(const Tensor tensor, tensor_of(request.tensor, buffer));
    TESSERA_TRY(require_range(tensor, request.offset, request.n, file_bytes(tensor)));
    got.resize(request.n);
    TESSERA_TRY(buffer->get(tensor, request.offset, got));
    return BytesAnswer{got};
  }

  Answer handle(const OpenFileRequest& request, OpenBackend*, CancelToken&) {
    TESSERA_ASSIGN(File file, File::open(request.path));
    if (file.size() != request.n_bytes)
      return fail(ErrorCode::mismatch, "{}: {} bytes, {} on rank 0", request.path, file.size(), request.n_bytes);
    TESSERA_ASSIGN(const uint64_t hash, hash_of_samples(file.size(), [&](uint64_t offset, std::span<std::byte> into) {
                     return file.read_at(offset, into);
                   }));
    if (hash != request.hash)
      return fail(ErrorCode::mismatch, "{}: another file than on rank 0, of the same size", request.path);
    const std::lock_guard lock(mutex_);
    files_[next_] = std::make_shared<const File>(std::move(file));
    return DoneAnswer{next_++};
  }

  // On the thread of one of several loaders, because packing weights takes longer than reading them.
  Answer handle(const LoadRequest& request, OpenBackend*, CancelToken&) {
    std::shared_ptr<Buffer> buffer;
    TESSERA_ASSIGN(const Tensor tensor, tensor_of(request.tensor, buffer));
    TESSERA_TRY(require_range(tensor, request.offset, request.n, file_bytes(tensor)));
    std::shared_ptr<const File> file;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = files_.find(request.file); found != files_.end()) file = found->second;
    }
    if (file == nullptr) return fail(ErrorCode::invalid_argument, "no file {}", request.file);
    std::vector<std::byte> bytes(request.n);
    TESSERA_TRY(file->read_at(request.file_offset, bytes));
    TESSERA_TRY(buffer->set(tensor, request.offset, bytes));
    return DoneAnswer{request.n};
  }

  Answer handle(const ClearRequest& request, OpenBackend*, CancelToken&) {
    TESSERA_ASSIGN(const std::shared_ptr<Buffer> buffer, find_buffer(request.buffer));
    TESSERA_TRY(request.is_reset ? buffer->reset() : buffer->clear(std::byte{request.value}));
    return DoneAnswer{};
  }

  Answer handle(const CopyRequest& request, OpenBackend*, CancelToken&) {
    std::shared_ptr<Buffer> source, target;
    TESSERA_ASSIGN(const Tensor from, tensor_of(request.from, source));
    TESSERA_ASSIGN(const Tensor to, tensor_of(request.to, target));
    TESSERA_TRY(require_no_gaps(from));
    TESSERA_TRY(require_no_gaps(to));
    TESSERA_TRY(target->copy(from, to));
    return DoneAnswer{};
  }

  Answer handle(const SendCopyRequest& request, OpenBackend*, CancelToken&) { return send_copy(request, got_); }

  Answer send_copy(const SendCopyRequest& request, std::vector<std::byte>& got) {
    std::shared_ptr<Buffer> buffer;
    TESSERA_ASSIGN(const Tensor from, tensor_of(request.from, buffer));
    TESSERA_TRY(require_no_gaps(from));
    got.resize(file_bytes(from));
    TESSERA_TRY(buffer->get(from, 0, got));
    TESSERA_TRY(link_.send(static_cast<int>(request.to_rank), encode({0, CopyMessage{request.copy, got}})));
    return DoneAnswer{got.size()};
  }

  Answer handle(const PeaksRequest& request, OpenBackend*, CancelToken&) {
    TESSERA_ASSIGN(const Device* device, find_device(request.device));
    TESSERA_ASSIGN(const DevicePeaks peaks, device->measure_peaks({.threads = threads_for(request.n_threads)}));
    return PeaksAnswer{peaks.int8_gmacs, peaks.f32_gmacs, peaks.int16_gmacs, peaks.read_gbps};
  }

  Answer handle(const OpenBackendRequest& request, OpenBackend*, CancelToken&) {
    TESSERA_ASSIGN(const Device* device, find_device(request.device));
    auto open = std::make_unique<OpenBackend>();
    open->device = device;
    open->types = device->buffer_types();
    TESSERA_ASSIGN(open->backend, device->create_backend(
                                      {.threads = threads_for(request.n_threads), .activations = request.activations}));
    TESSERA_ASSIGN(open->stream, Stream::create());
    const std::lock_guard lock(mutex_);
    backends_[next_] = std::move(open);
    return DoneAnswer{next_++};
  }

  Answer handle(const CloseBackendRequest& request, OpenBackend*, CancelToken&) {
    std::unique_ptr<OpenBackend> last;  // its thread ends without the lock, which its last requests take
    {
      const std::lock_guard lock(mutex_);
      if (auto node = backends_.extract(request.backend)) last = std::move(node.mapped());
    }
    last.reset();
    return DoneAnswer{};
  }

  Answer handle(const WorkBytesRequest& request, OpenBackend* open, CancelToken&) {
    TESSERA_TRY(require_open(open));
    std::deque<Tensor> leaves;
    TESSERA_ASSIGN(const Graph graph, from_wire(request.graph, open->types, leaves));
    TESSERA_ASSIGN(const size_t bytes, open->backend->work_bytes(graph));
    return DoneAnswer{bytes};
  }

  Answer handle(const CompileRequest& request, OpenBackend* open, CancelToken&) {
    TESSERA_TRY(require_open(open));
    auto plan = std::make_unique<BoundPlan>();
    TESSERA_ASSIGN(plan->graph, from_wire(request.graph, open->types, plan->leaves));
    TESSERA_TRY(bind(request.places, *open, *plan));
    BufferRange work;
    if (request.work_bytes != 0) {
      TESSERA_ASSIGN(auto buffer, find_buffer(request.work.buffer));
      if (!open->device->can_use(buffer->type()))
        return fail(ErrorCode::invalid_argument, "{} cannot use the scratch memory", open->device->name());
      TESSERA_TRY(require_inside(*buffer, request.work.offset, request.work_bytes, buffer->type().alignment()));
      work = {buffer.get(), request.work.offset, request.work_bytes};
      plan->buffers.push_back(std::move(buffer));
    }
    TESSERA_ASSIGN(plan->plan, open->backend->compile(plan->graph, plan->tensors, work));
    uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = next_++;
    }
    open->plans[number] = std::move(plan);
    return DoneAnswer{number};
  }

  Answer handle(const FreePlanRequest& request, OpenBackend* open, CancelToken&) {
    if (open != nullptr) open->plans.erase(request.plan);
    return DoneAnswer{};
  }

  Answer handle(const RunRequest& request, OpenBackend* open, CancelToken& token) {
    TESSERA_TRY(require_open(open));
    TESSERA_TRY(take_deferred());
    const auto found = open->plans.find(request.plan);
    if (found == open->plans.end()) return fail(ErrorCode::invalid_argument, "no plan {}", request.plan);
    GraphPlan& plan = *found->second->plan;
    if (!request.is_timed) {
      TESSERA_TRY(open->backend->run(plan, &token));
      return DoneAnswer{};
    }
    TESSERA_ASSIGN(const std::vector<NodeTime> times, open->backend->run_timed(plan, &token));
    TimesAnswer answer;
    for (const NodeTime& time : times)
      answer.times.push_back({time.node, {time.begin_us, time.us, time.prepare_us, time.wait_us}});
    return answer;
  }

  // The others are answers, which only rank 0 gets.
  template <class Other>
  Answer handle(const Other&, OpenBackend*, CancelToken&) {
    return fail(ErrorCode::format, "a message that a worker does not take");
  }

  ThreadPoolOptions threads_for(int32_t wanted) const {
    ThreadPoolOptions threads = options_.threads;
    if (wanted != 0) threads.n_threads = wanted;
    return threads;
  }

  static Result<> require_open(const OpenBackend* open) {
    if (open == nullptr) return fail(ErrorCode::invalid_argument, "no such backend");
    return {};
  }

  Answer take_copy(const WorkerCopies::Copy& copy) {
    const auto& request = std::get<ReceiveCopyRequest>(copy.request->envelope.message);
    const auto& data = std::get<CopyMessage>(copy.data->envelope.message);
    if (static_cast<int>(request.from_rank) != copy.from)
      return fail(ErrorCode::format, "copy {} came from rank {}, want {}", request.copy, copy.from, request.from_rank);
    std::shared_ptr<Buffer> buffer;
    TESSERA_ASSIGN(const Tensor to, tensor_of(request.to, buffer));
    TESSERA_TRY(require_no_gaps(to));
    if (data.bytes.size() != file_bytes(to))
      return fail(ErrorCode::format, "{}: {} bytes came, {} wanted", to.name, data.bytes.size(), file_bytes(to));
    TESSERA_TRY(buffer->set(to, 0, data.bytes));
    return DoneAnswer{data.bytes.size()};
  }

  static Result<> require_no_gaps(const Tensor& tensor) {
    if (is_contiguous(tensor.dtype, tensor.layout)) return {};
    return fail(ErrorCode::invalid_argument, "copy of {}: a view with gaps", tensor.name);
  }

  static size_t file_bytes(const Tensor& tensor) { return span_bytes(tensor.dtype, tensor.layout); }

  Result<const Device*> find_device(uint32_t index) const {
    if (index < devices_.size()) return devices_[index].get();
    return fail(ErrorCode::invalid_argument, "device {}, want one of {}", index, devices_.size());
  }

  Result<std::shared_ptr<Buffer>> find_buffer(uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(number);
    if (found == buffers_.end()) return fail(ErrorCode::invalid_argument, "no buffer {}", number);
    return found->second;
  }

  Result<Tensor> tensor_of(const WireTensor& wire, std::shared_ptr<Buffer>& buffer) {
    TESSERA_ASSIGN(buffer, find_buffer(wire.buffer));
    auto spec = from_wire(wire.spec);
    if (!spec) return forward_error(spec, wire.name);
    if (auto inside = require_inside(*buffer, *spec, wire.offset); !inside) return forward_error(inside, wire.name);
    return Tensor{*spec, wire.name, &buffer->type(), buffer.get(), wire.offset};
  }

  // Gives each node its memory. Views and results in place must be where their operand is.
  Result<> bind(const std::vector<WirePlace>& places, const OpenBackend& open, BoundPlan& plan) {
    const Graph& graph = plan.graph;
    if (places.size() != to_size(graph.size()))
      return fail(ErrorCode::format, "{} places for {} nodes", places.size(), graph.size());
    std::map<uint64_t, std::shared_ptr<Buffer>> held;
    size_t n_leaves = 0;
    for (NodeId id = 0; id < graph.size(); ++id) {
      const Node& node = graph[id];
      const WirePlace& place = places[to_size(id)];
      auto& buffer = held[place.buffer];
      if (buffer == nullptr) {
        TESSERA_ASSIGN(buffer, find_buffer(place.buffer));
      }
      const auto refuse = [&](std::string_view why) {
        return fail(ErrorCode::invalid_argument, "node {} ({}): {}", id, node.name, why);
      };
      if (!open.device->can_use(buffer->type())) return refuse("memory that the device cannot use");
      if (node.op == Op::tensor) {
        if (node.tensor->buffer_type != &buffer->type()) return refuse("memory of another type than its tensor");
        Tensor& leaf = plan.leaves[n_leaves++];
        leaf.buffer = buffer.get();
        leaf.offset = place.offset;
      } else if (node.alias_of == kNoNode && &buffer->type() != &open.device->buffer_type()) {
        return refuse("a value outside of the device's default memory");
      }
      if (node.alias_of != kNoNode) {
        const WirePlace& of = places[to_size(node.alias_of)];
        if (of.buffer != place.buffer || place.offset < of.offset || place.offset - of.offset != node.alias_offset)
          return refuse("it is not where its operand is");
      }
      // A part of packed memory has no size of its own; it is inside of its tensor.
      const bool is_part = node.alias_of != kNoNode && !buffer->type().is_host();
      if (!is_part)
        if (auto inside = require_inside(*buffer, node.spec, place.offset); !inside)
          return forward_error(inside, node.name);
      plan.tensors.push_back({node.spec, node.name, &buffer->type(), buffer.get(), place.offset});
    }
    for (auto& [number, buffer] : held) plan.buffers.push_back(std::move(buffer));
    return {};
  }

  std::vector<std::unique_ptr<Device>> devices_;  // used by the stream of memory alone
  const WorkerOptions& options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false, is_stopping_ = false;
  std::optional<Error> lost_, deferred_;
  uint64_t next_ = 1;  // number of a buffer, backend or plan
  std::map<uint64_t, std::shared_ptr<Buffer>> buffers_;
  std::map<uint64_t, std::unique_ptr<OpenBackend>> backends_;
  std::map<uint64_t, std::shared_ptr<CancelToken>> runs_;  // by request
  std::map<uint64_t, std::shared_ptr<const File>> files_;
  std::map<int, Error> gone_;  // other workers that are lost; used by the thread of the link alone
  CancelToken never_;
  std::vector<std::byte> quick_bytes_;  // used by the thread of the link alone
  WorkerCopies copies_;                 // used by the thread of the link alone
  std::vector<std::byte> got_;          // used by the stream of memory alone
  std::unique_ptr<Stream> memory_stream_;
  std::array<std::unique_ptr<Stream>, kLoaders> loaders_;
  Link link_;  // destroyed first: its thread uses the other members
};

}  // namespace

Result<> serve(Transport& transport, const WorkerOptions& options) { return Worker(options, transport).serve(); }

}  // namespace tessera::mpi
