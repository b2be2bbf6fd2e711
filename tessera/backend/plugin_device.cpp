#include "tessera/backend/plugin_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>

#include "tessera/backend/plugin_graph.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint32_t kMaxProperties = 64;

int32_t plugin_usage(BufferUsage usage) {
  switch (usage) {
    case BufferUsage::weights:
      return TESSERA_PLUGIN_WEIGHTS;
    case BufferUsage::cache:
      return TESSERA_PLUGIN_CACHE;
    case BufferUsage::compute:
      return TESSERA_PLUGIN_COMPUTE;
    case BufferUsage::any:
      break;
  }
  return TESSERA_PLUGIN_ANY;
}

// The part of a device that its buffers, plans and backends use.
struct Handle {
  std::shared_ptr<const PluginLibrary> library;
  std::string name;
  void* device = nullptr;

  const tessera_plugin& table() const { return library->table(); }
  template <class Call>
  Result<> call(Call function) const {
    return checked_call(name, function);
  }
};

class PluginBuffer final : public Buffer {
 public:
  PluginBuffer(const BufferType& type, const Handle& handle, void* buffer, size_t size, BufferUsage usage)
      : Buffer(type, size, usage), handle_(handle), buffer_(buffer) {
    base_ = guarded<void*>(nullptr, [&] { return handle_.table().buffer_base(handle_.device, buffer_); });
  }
  ~PluginBuffer() override {
    guarded(0, [&] { return handle_.table().buffer_free(handle_.device, buffer_), 0; });
  }

  void* handle() const { return buffer_; }

  std::byte* base() override { return static_cast<std::byte*>(base_); }
  Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override {
    TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
    return handle_.call([&](char* text, size_t n) {
      return handle_.table().buffer_set(handle_.device, buffer_, tensor.offset + offset, bytes.data(), bytes.size(),
                                        text, n);
    });
  }
  Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override {
    TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
    return handle_.call([&](char* text, size_t n) {
      return handle_.table().buffer_get(handle_.device, buffer_, tensor.offset + offset, bytes.data(), bytes.size(),
                                        text, n);
    });
  }
  Result<> clear(std::byte value) override {
    return handle_.call([&](char* text, size_t n) {
      return handle_.table().buffer_clear(handle_.device, buffer_, static_cast<uint8_t>(value), text, n);
    });
  }
  Result<> reset() override { return clear(std::byte{0}); }

 private:
  const Handle& handle_;
  void* buffer_;
  void* base_;
};

// Memory of the host, owned by somebody else.
class WrappedBuffer final : public Buffer {
 public:
  WrappedBuffer(const BufferType& type, std::span<std::byte> memory)
      : Buffer(type, memory.size(), BufferUsage::any), memory_(memory) {}

  std::byte* base() override { return memory_.data(); }
  Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override {
    TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
    std::ranges::copy(bytes, memory_.data() + tensor.offset + offset);
    return {};
  }
  Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override {
    TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
    std::copy_n(memory_.data() + tensor.offset + offset, bytes.size(), bytes.data());
    return {};
  }
  Result<> clear(std::byte value) override {
    std::ranges::fill(memory_, value);
    return {};
  }
  Result<> reset() override { return clear(std::byte{0}); }

 private:
  std::span<std::byte> memory_;
};

class PluginBufferType final : public BufferType {
 public:
  PluginBufferType(const Device& device, const Handle& handle, const tessera_plugin_device_info& info)
      : device_(device),
        handle_(handle),
        alignment_(info.alignment),
        max_size_(info.max_buffer_bytes),
        is_host_((info.flags & TESSERA_PLUGIN_HOST_MEMORY) != 0) {}

  std::string_view name() const override { return handle_.name; }
  const Device& device() const override { return device_; }
  size_t alignment() const override { return alignment_; }
  size_t max_size() const override { return max_size_; }
  bool is_host() const override { return is_host_; }

  Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override {
    TESSERA_ASSIGN(const size_t in_files, nbytes(dtype, shape));
    if (handle_.table().tensor_bytes == nullptr) return in_files;
    const uint64_t bytes = guarded(uint64_t{0}, [&] {
      return handle_.table().tensor_bytes(handle_.device, static_cast<int32_t>(dtype), shape.ne.data());
    });
    if (in_files != 0 && bytes == 0)
      return fail(ErrorCode::unsupported, "{} cannot hold {} {}", handle_.name, info(dtype).name, to_string(shape));
    if (bytes < in_files)
      return fail(ErrorCode::internal, "{} sets {} bytes aside for {} {}, which has {}", handle_.name, bytes,
                  info(dtype).name, to_string(shape), in_files);
    return bytes;
  }

  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override {
    if (bytes > max_size_)
      return fail(ErrorCode::out_of_memory, "{}: {} bytes, its largest buffer has {}", handle_.name, bytes, max_size_);
    void* allocated = nullptr;
    TESSERA_TRY(handle_.call([&](char* text, size_t n) {
      return handle_.table().buffer_alloc(handle_.device, bytes, plugin_usage(usage), &allocated, text, n);
    }));
    if (allocated == nullptr) return fail(ErrorCode::internal, "{} gives no buffer and no error", handle_.name);
    auto buffer = std::make_unique<PluginBuffer>(*this, handle_, allocated, bytes, usage);
    const auto address = reinterpret_cast<uintptr_t>(buffer->base());
    if (bytes != 0 && ((is_host_ && address == 0) || address % alignment_ != 0))
      return fail(ErrorCode::internal, "{} gives a buffer at {:#x}, want a multiple of {}", handle_.name, address,
                  alignment_);
    return buffer;
  }

 private:
  const Device& device_;
  const Handle& handle_;
  size_t alignment_, max_size_;
  bool is_host_;
};

// Records when nodes begin, as the plugin reports it during a run.
class NodeClock {
 public:
  explicit NodeClock(size_t n_nodes) : n_nodes_(n_nodes) { times_.reserve(n_nodes); }

  void begin(uint32_t index) {
    const double now = microseconds();
    end(now);
    if (index < n_nodes_ && times_.size() < n_nodes_) times_.push_back({static_cast<NodeId>(index), now, 0});
  }
  std::vector<NodeTime> finish() {
    end(microseconds());
    return std::move(times_);
  }

 private:
  double microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
  }
  void end(double now) {
    if (!times_.empty()) times_.back().us = now - times_.back().begin_us;
  }

  size_t n_nodes_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<NodeTime> times_;
};

struct RunContext {
  const CancelToken* cancel;
  std::optional<NodeClock>* clock;
};

extern "C" int32_t tessera_plugin_was_cancelled(void* context) {
  const CancelToken* cancel = static_cast<const RunContext*>(context)->cancel;
  return cancel != nullptr && cancel->cancelled() ? 1 : 0;
}

extern "C" void tessera_plugin_node_begins(void* context, uint32_t index) {
  (*static_cast<RunContext*>(context)->clock)->begin(index);
}

class PluginPlan final : public GraphPlan {
 public:
  PluginPlan(const Handle& handle, void* backend, const Graph& graph)
      : handle_(handle), backend_(backend), graph_(graph) {}
  ~PluginPlan() override {
    if (plan_ == nullptr) return;
    guarded(0, [&] { return handle_.table().plan_free(backend_, plan_), 0; });
  }

  size_t n_nodes() const { return bindings_.size(); }

  Result<> compile(std::vector<tessera_plugin_binding> bindings, const tessera_plugin_binding& work,
                   size_t work_bytes) {
    bindings_ = std::move(bindings);
    const tessera_plugin_compile_args args{.size = sizeof args,
                                           .reserved = 0,
                                           .graph = graph_.get(),
                                           .bindings = bindings_.data(),
                                           .work = work,
                                           .work_bytes = work_bytes};
    TESSERA_TRY(
        handle_.call([&](char* text, size_t n) { return handle_.table().compile(backend_, &args, &plan_, text, n); }));
    if (plan_ == nullptr) return fail(ErrorCode::internal, "{} gives no plan and no error", handle_.name);
    return {};
  }

  Result<> run(RunContext context) const {
    const tessera_plugin_run_args args{.size = sizeof args,
                                       .reserved = 0,
                                       .context = &context,
                                       .cancelled = tessera_plugin_was_cancelled,
                                       .begins = context.clock == nullptr ? nullptr : tessera_plugin_node_begins};
    return handle_.call([&](char* text, size_t n) { return handle_.table().run(backend_, plan_, &args, text, n); });
  }

 private:
  const Handle& handle_;
  void* backend_;
  PluginGraph graph_;
  std::vector<tessera_plugin_binding> bindings_;
  void* plan_ = nullptr;
};

class PluginBackend final : public Backend {
 public:
  PluginBackend(const Device& device, const Handle& handle, void* backend)
      : device_(device), handle_(handle), backend_(backend) {}
  ~PluginBackend() override {
    guarded(0, [&] { return handle_.table().backend_close(backend_), 0; });
  }

  const Device& device() const override { return device_; }

  Result<size_t> work_bytes(const Graph& graph) const override {
    TESSERA_TRY(require_supported(device_, graph));
    const PluginGraph plugin_graph(graph);
    uint64_t bytes = 0;
    TESSERA_TRY(handle_.call([&](char* text, size_t n) {
      return handle_.table().work_bytes(backend_, plugin_graph.get(), &bytes, text, n);
    }));
    if (bytes > device_.buffer_type().max_size())
      return fail(ErrorCode::limit, "{} asks for {} bytes of scratch memory, its largest buffer has {}", handle_.name,
                  bytes, device_.buffer_type().max_size());
    return bytes;
  }

  Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                             const BufferRange& work) override {
    TESSERA_TRY(require_supported(device_, graph));
    TESSERA_TRY(require_tensors(device_, graph, tensors));
    std::vector<tessera_plugin_binding> plugin_bindings;
    for (const Tensor& tensor : tensors) {
      TESSERA_ASSIGN(const tessera_plugin_binding binding, binding_at(tensor.buffer, tensor.offset, tensor.name));
      plugin_bindings.push_back(binding);
    }
    tessera_plugin_binding plugin_work{};
    if (work.bytes != 0) {
      TESSERA_ASSIGN(plugin_work, binding_at(work.buffer, work.offset, "scratch"));
    }
    auto plan = std::make_unique<PluginPlan>(handle_, backend_, graph);
    TESSERA_TRY(plan->compile(std::move(plugin_bindings), plugin_work, work.bytes));
    return plan;
  }

  Result<> run(GraphPlan& plan, const CancelToken* cancel) override {
    return static_cast<const PluginPlan&>(plan).run({.cancel = cancel, .clock = nullptr});
  }

  Result<std::vector<NodeTime>> run_timed(GraphPlan& plan, const CancelToken* cancel) override {
    const auto& plugin_plan = static_cast<const PluginPlan&>(plan);
    std::optional<NodeClock> clock(plugin_plan.n_nodes());
    TESSERA_TRY(plugin_plan.run({.cancel = cancel, .clock = &clock}));
    std::vector<NodeTime> times = clock->finish();
    if (times.empty()) return fail(ErrorCode::unsupported, "{} does not tell the times of nodes", handle_.name);
    return times;
  }

 private:
  Result<tessera_plugin_binding> binding_at(Buffer* buffer, size_t offset, std::string_view what) const {
    if (buffer == nullptr || !device_.can_use(buffer->type()))
      return fail(ErrorCode::invalid_argument, "{} has no memory that {} can address", what, handle_.name);
    const auto* own = dynamic_cast<const PluginBuffer*>(buffer);
    const bool is_own = own != nullptr && &buffer->type() == &device_.buffer_type();
    return tessera_plugin_binding{.buffer = is_own ? own->handle() : nullptr,
                                  .offset = offset,
                                  .address = buffer->type().is_host() ? buffer->base() + offset : nullptr};
  }

  const Device& device_;
  const Handle& handle_;
  void* backend_;
};

class PluginDevice final : public Device {
 public:
  PluginDevice(std::shared_ptr<const PluginLibrary> library, uint32_t index)
      : handle_{.library = std::move(library), .name = "", .device = nullptr} {
    handle_.name = fmt::format("{}:{}", handle_.library->name(), index);
  }
  ~PluginDevice() override {
    if (is_open_) guarded(0, [&] { return handle_.table().device_close(handle_.device), 0; });
  }

  Result<> open(uint32_t index) {
    TESSERA_TRY(handle_.call(
        [&](char* text, size_t n) { return handle_.table().device_open(index, &handle_.device, text, n); }));
    is_open_ = true;
    const auto* info = guarded<const tessera_plugin_device_info*>(
        nullptr, [&] { return handle_.table().device_info(handle_.device); });
    TESSERA_TRY(read_info(info));
    memory_ = std::make_unique<PluginBufferType>(*this, handle_, *info);
    return {};
  }

  std::string_view name() const override { return handle_.name; }
  std::string description() const override { return description_; }
  DeviceKind kind() const override { return kind_; }
  DeviceMemory memory() const override {
    DeviceMemory memory;
    guarded(0,
            [&] { return handle_.table().device_memory(handle_.device, &memory.total_bytes, &memory.free_bytes), 0; });
    memory.free_bytes = std::min(memory.free_bytes, memory.total_bytes);
    return memory;
  }
  std::vector<std::pair<std::string, std::string>> properties() const override { return properties_; }

  const BufferType& buffer_type() const override { return *memory_; }
  const BufferType& weight_buffer_type(Op, DType, const Shape&) const override { return *memory_; }
  // A device that shares memory with the host can also use the host memory of other devices.
  bool can_use(const BufferType& type) const override {
    return &type == memory_.get() || (memory_->is_host() && type.is_host());
  }
  bool supports(const Graph& graph, NodeId id) const override {
    const Node& node = graph[id];
    if (!node.is_work()) return true;
    if (has_foreign_cache(graph, node)) return false;
    const PluginGraph plugin_graph(graph, id);
    return guarded(int32_t{0}, [&] { return handle_.table().supports(handle_.device, plugin_graph.last()); }) != 0;
  }
  bool supports_kv(DType dtype, KvSide side, int64_t dim) const override {
    const tessera_plugin& table = handle_.table();
    if (table.supports_kv == nullptr || !row_bytes(dtype, dim)) return false;
    const int32_t v = side == KvSide::v ? 1 : 0;
    return guarded(int32_t{0},
                   [&] { return table.supports_kv(handle_.device, static_cast<int32_t>(dtype), v, dim); }) != 0;
  }
  Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte> memory) const override {
    if (!memory_->is_host()) return fail(ErrorCode::unsupported, "{} has no use for the host's memory", handle_.name);
    return std::make_unique<WrappedBuffer>(*memory_, memory);
  }

  Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const override {
    const tessera_plugin_backend_options plugin_options{.size = sizeof plugin_options,
                                                        .n_threads = std::max(options.threads.n_threads, 1)};
    void* backend = nullptr;
    TESSERA_TRY(handle_.call([&](char* text, size_t n) {
      return handle_.table().backend_open(handle_.device, &plugin_options, &backend, text, n);
    }));
    if (backend == nullptr) return fail(ErrorCode::internal, "{} gives no backend and no error", handle_.name);
    return std::make_unique<PluginBackend>(*this, handle_, backend);
  }
  Result<DevicePeaks> measure_peaks(const BackendOptions&) const override {
    return fail(ErrorCode::unsupported, "{}: plugins cannot measure peak rates", handle_.name);
  }

 private:
  // The layout of tokens within a cache block is private to its device.
  bool has_foreign_cache(const Graph& graph, const Node& node) const {
    size_t begin = 0, end = 0;
    if (node.op == Op::kv_store || node.op == Op::kv_load) end = 1;
    if (node.op == Op::paged_attention || node.op == Op::compress_rows) begin = 1, end = 3;
    if (node.op == Op::choose_keys) begin = 1, end = 2;
    for (size_t i = begin; i < end; ++i) {
      if (node.sources[i] == kNoNode) continue;
      const Node& storage = graph[graph.storage(node.sources[i])];
      const BufferType* type = storage.op == Op::tensor ? storage.tensor->buffer_type : nullptr;
      if (type != nullptr && &type->device() != this) return true;
    }
    return false;
  }

  Result<> read_info(const tessera_plugin_device_info* info) {
    const auto nonsense = [&](std::string_view what, uint64_t got, std::string_view want) {
      return fail(ErrorCode::format, "{}: {} {}, want {}", handle_.name, what, got, want);
    };
    if (info == nullptr || info->size < sizeof *info)
      return nonsense("bytes of its device_info:", info == nullptr ? 0 : info->size, "at least those of version 1.0");
    if (info->kind < TESSERA_PLUGIN_CPU || info->kind > TESSERA_PLUGIN_ACCELERATOR)
      return nonsense("kind", static_cast<uint32_t>(info->kind), "0 to 2");
    if (!std::has_single_bit(info->alignment) || info->alignment > kMaxAlignment)
      return nonsense("alignment", info->alignment, "a power of two up to 1 MiB");
    if (info->max_buffer_bytes < info->alignment || info->max_buffer_bytes > SIZE_MAX / 2)
      return nonsense("largest buffer of bytes:", info->max_buffer_bytes, "at least the alignment, below 2^63");
    if (info->n_properties > kMaxProperties || (info->n_properties != 0 && info->properties == nullptr))
      return nonsense("properties:", info->n_properties, "a list of at most 64");
    if (info->description == nullptr) return nonsense("description at", 0, "a text");
    description_ = printable_text(info->description);
    kind_ = info->kind == TESSERA_PLUGIN_CPU   ? DeviceKind::cpu
            : info->kind == TESSERA_PLUGIN_GPU ? DeviceKind::gpu
                                               : DeviceKind::accelerator;
    const PluginLibrary& library = *handle_.library;
    properties_ = {{"plugin", library.path()},
                   {"variant", library.variant().empty() ? "-" : library.variant()},
                   {"version", library.version()}};
    for (uint32_t i = 0; i < info->n_properties; ++i)
      properties_.emplace_back(printable_text(info->properties[i].name), printable_text(info->properties[i].value));
    return {};
  }

  Handle handle_;
  bool is_open_ = false;
  std::string description_;
  DeviceKind kind_ = DeviceKind::accelerator;
  std::vector<std::pair<std::string, std::string>> properties_;
  std::unique_ptr<PluginBufferType> memory_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_plugin_device(std::shared_ptr<const PluginLibrary> library, uint32_t index) {
  auto device = std::make_unique<PluginDevice>(std::move(library), index);
  TESSERA_TRY(device->open(index));
  return device;
}

}  // namespace tessera
