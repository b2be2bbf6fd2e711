#include "tessera/cuda/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cuda/buffers.h"
#include "tessera/cuda/peaks.h"
#include "tessera/cuda/plan.h"
#include "tessera/gpu/tables.h"

namespace tessera::cuda {

namespace {

// As in kernels/device.cuh.
struct FaultLock {
  uint32_t is_taken = 0, reserved = 0;
  uint64_t words = 0;
};

class CudaDevice;

class CudaBackend final : public Backend {
 public:
  CudaBackend(const CudaDevice& device, bool is_precise) : device_(device), is_precise_(is_precise) {}
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  ~CudaBackend() override;
  Result<> create();

  const Device& device() const override;
  Result<size_t> work_bytes(const Graph& graph) const override;
  Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                             const BufferRange& work) override;
  Result<> run(GraphPlan& plan, const CancelToken* cancel) override;
  Result<std::vector<NodeTime>> run_timed(GraphPlan& plan, const CancelToken* cancel) override;

 private:
  StepContext context_of(const Graph& graph, std::span<const Tensor> tensors) const;
  Result<> begin(const CudaPlan& plan);
  Result<> wait();
  Result<> unlock_fault();
  Result<> check_fault(const CudaPlan& plan);
  FaultWords* fault() const { return reinterpret_cast<FaultWords*>(fault_.mapped()); }

  const CudaDevice& device_;
  bool is_precise_;
  uint64_t n_writes_seen_ = 0;  // see Context::await_writes()
  CuStream stream_ = nullptr;
  Allocation fault_, fault_lock_;  // in memory of the host and of the device
  uint64_t n_plans_ = 0;
  uint64_t ready_plan_ = 0;  // number of the plan whose image is in the work memory; 0: none
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::string name, std::unique_ptr<Context> context)
      : name_(std::move(name)), context_(std::move(context)), memory_(*this, *context_, name_) {}

  Result<> create() {
    const std::vector<uint32_t> words = codebook_words();
    TESSERA_ASSIGN(tables_, context_->allocate(words.size() * sizeof(uint32_t)));
    return context_->write(tables_.address(), std::as_bytes(std::span(words)));
  }

  std::string_view name() const override { return name_; }
  std::string description() const override { return context_->name(); }
  DeviceKind kind() const override { return DeviceKind::gpu; }
  std::string hardware_id() const override { return context_->uuid(); }
  DeviceMemory memory() const override { return {context_->total_bytes(), context_->free_bytes()}; }
  std::vector<std::pair<std::string, std::string>> properties() const override {
    const int version = context_->driver().version(), capability = context_->capability();
    return {{"driver's cuda", fmt::format("{}.{}", version / 1000, version % 1000 / 10)},
            {"compute capability", fmt::format("{}.{}", capability / 10, capability % 10)},
            {"multiprocessors", std::to_string(context_->n_multiprocessors())},
            {"l2 bytes", std::to_string(context_->l2_bytes())}};
  }

  const BufferType& buffer_type() const override { return memory_; }
  const BufferType& weight_buffer_type(Op, DType, const Shape&) const override { return memory_; }
  bool can_use(const BufferType& type) const override { return &type == &memory_; }
  bool supports(const Graph& graph, NodeId id) const override { return gpu::supports(graph, id, kOwnKernels); }
  bool supports_kv(DType dtype, KvSide, int64_t dim) const override { return gpu::supports_kv(dtype, dim); }
  Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte>) const override {
    return fail(ErrorCode::unsupported, "{} has no use for the host's memory", name_);
  }
  Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const override {
    auto backend = std::make_unique<CudaBackend>(*this, options.activations == ActivationPrecision::float32);
    TESSERA_TRY(backend->create());
    return backend;
  }
  Result<DevicePeaks> measure_peaks(const BackendOptions&) const override { return cuda::measure_peaks(*context_); }

  const Context& context() const { return *context_; }
  uint64_t tables() const { return tables_.address(); }

 private:
  std::string name_;
  std::unique_ptr<Context> context_;
  Allocation tables_;
  CudaBufferType memory_;
};

CudaBackend::~CudaBackend() {
  if (stream_ != nullptr && device_.context().enter()) device_.context().driver().stream_destroy(stream_);
}

Result<> CudaBackend::create() {
  TESSERA_TRY(device_.context().enter());
  TESSERA_CUDA(device_.context().driver(), stream_create, &stream_, kCuStreamNonBlocking);
  TESSERA_ASSIGN(fault_, device_.context().allocate_host(sizeof(FaultWords)));
  TESSERA_ASSIGN(fault_lock_, device_.context().allocate(sizeof(FaultLock)));
  return unlock_fault();
}

const Device& CudaBackend::device() const { return device_; }

StepContext CudaBackend::context_of(const Graph& graph, std::span<const Tensor> tensors) const {
  return {.graph = graph,
          .node = graph[0],
          .tensors = tensors,
          .n_lanes = kDefaultThreads,
          .matrices = {},
          .is_precise = is_precise_,
          .shared_bytes = device_.context().most_shared(),
          .has_wide = device_.context().has_wide()};
}

Result<std::unique_ptr<GraphPlan>> CudaBackend::compile(const Graph& graph, std::span<const Tensor> tensors,
                                                        const BufferRange& work) {
  TESSERA_TRY(require_supported(device_, graph));
  TESSERA_TRY(require_tensors(device_, graph, tensors));
  auto plan = std::make_unique<CudaPlan>(device_.context(), stream_, ++n_plans_);
  if (graph.size() == 0) return plan;
  StepMemory memory{.work = 0, .tables = device_.tables(), .fault = fault_lock_.address()};
  if (work.buffer != nullptr) {
    if (!device_.can_use(work.buffer->type()))
      return fail(ErrorCode::invalid_argument, "{} cannot address its work memory", device_.name());
    memory.work = static_cast<const CudaBuffer&>(*work.buffer).address() + work.offset;
  }
  TESSERA_TRY(plan->compile(context_of(graph, tensors), memory, work.bytes));
  return plan;
}

Result<size_t> CudaBackend::work_bytes(const Graph& graph) const {
  TESSERA_TRY(require_supported(device_, graph));
  if (graph.size() == 0) return 0;
  std::vector<Tensor> tensors;
  tensors.reserve(to_size(graph.size()));
  for (const Node& node : graph.nodes()) tensors.push_back(Tensor{node.spec, node.name});
  StepList steps;
  TESSERA_TRY(steps.make(context_of(graph, tensors), kOwnKernels));
  return steps.work_bytes();
}

// Brings the plan's image to the work memory unless it is there.
Result<> CudaBackend::begin(const CudaPlan& plan) {
  TESSERA_TRY(device_.context().enter());
  TESSERA_TRY(device_.context().await_writes(stream_, n_writes_seen_));
  *fault() = {};
  if (plan.image().empty() || ready_plan_ == plan.number()) return {};
  ready_plan_ = 0;
  TESSERA_CUDA(device_.context().driver(), copy_to_device, plan.work(), plan.image().data(), plan.image().size(),
               stream_);
  ready_plan_ = plan.number();
  return {};
}

Result<> CudaBackend::unlock_fault() {
  const FaultLock lock{.words = fault_.address()};
  return device_.context().write(fault_lock_.address(), std::as_bytes(std::span(&lock, 1)));
}

Result<> CudaBackend::check_fault(const CudaPlan& plan) {
  const FaultWords found = *fault();
  if (found.step != 0) TESSERA_TRY(unlock_fault());
  return plan.steps().check(found);
}

Result<> CudaBackend::wait() {
  return device_.context().driver().check(device_.context().driver().stream_wait(stream_), "stream_wait");
}

Result<> CudaBackend::run(GraphPlan& plan, const CancelToken* cancel) {
  const auto& cuda_plan = static_cast<const CudaPlan&>(plan);
  TESSERA_TRY(begin(cuda_plan));
  for (const CuGraphExec submission : cuda_plan.submissions()) {
    if (cancel != nullptr && cancel->cancelled()) return fail(ErrorCode::cancelled, "cancelled");
    TESSERA_CUDA(device_.context().driver(), graph_launch, submission, stream_);
    TESSERA_TRY(wait());
  }
  return check_fault(cuda_plan);
}

Result<std::vector<NodeTime>> CudaBackend::run_timed(GraphPlan& plan, const CancelToken* cancel) {
  auto& cuda_plan = static_cast<CudaPlan&>(plan);
  if (cancel != nullptr && cancel->cancelled()) return fail(ErrorCode::cancelled, "cancelled");
  TESSERA_TRY(begin(cuda_plan));
  TESSERA_TRY(cuda_plan.run_timed());
  TESSERA_TRY(wait());
  TESSERA_TRY(check_fault(cuda_plan));
  return cuda_plan.times();
}

}  // namespace

FoundDevices find_devices(const Options& options) {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::string> notes;
  const auto driver = Driver::open(options.library);
  int n_devices = 0;
  if (!driver || (*driver)->device_count(&n_devices) != kCuSuccess) return {std::move(devices)};
  for (int ordinal = 0; ordinal < n_devices; ++ordinal) {
    const auto add = [&]() -> Result<> {
      TESSERA_ASSIGN(auto context, Context::create(*driver, ordinal, options));
      auto device = std::make_unique<CudaDevice>(fmt::format("cuda:{}", devices.size()), std::move(context));
      TESSERA_TRY(device->create());
      devices.push_back(std::move(device));
      return {};
    };
    if (const auto added = add(); !added) notes.push_back(added.error().message());
  }
  return {std::move(devices), std::move(notes)};
}

}  // namespace tessera::cuda
