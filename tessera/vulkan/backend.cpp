#include "tessera/vulkan/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/gpu/tables.h"
#include "tessera/graph/op_info.h"
#include "tessera/vulkan/buffers.h"
#include "tessera/vulkan/cooperative.h"
#include "tessera/vulkan/peaks.h"
#include "tessera/vulkan/plan.h"

namespace tessera::vulkan {

namespace {

class VulkanDevice;

// Tokens of the products that are compared before cooperative matrices are used: those of both shaders.
constexpr int64_t kManyProbeTokens = 40, kFewProbeTokens = 3;

std::string name_of(const Matrices& matrices) {
  return matrices.n_lanes == 0 ? "off" : matrices.is_emulated ? "emulated" : "on";
}

class VulkanBackend final : public Backend {
 public:
  VulkanBackend(const VulkanDevice& device, bool is_precise) : device_(device), is_precise_(is_precise) {}
  ~VulkanBackend() override;
  Result<> create();

  const Device& device() const override;
  Result<size_t> work_bytes(const Graph& graph) const override;
  Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                             const BufferRange& work) override;
  Result<> run(GraphPlan& plan, const CancelToken* cancel) override;
  Result<std::vector<NodeTime>> run_timed(GraphPlan& plan, const CancelToken* cancel) override;

 private:
  Result<> run_submissions(const VulkanPlan& plan, std::span<const VkCommandBuffer> submissions,
                           const CancelToken* cancel);
  FaultWords* fault() const { return reinterpret_cast<FaultWords*>(fault_.mapped()); }

  StepContext context_of(const Graph& graph, std::span<const Tensor> tensors) const;

  const VulkanDevice& device_;
  bool is_precise_;
  VkFence fence_ = VK_NULL_HANDLE;
  Allocation fault_;
  uint64_t n_plans_ = 0;
  uint64_t ready_plan_ = 0;  // number of the plan whose parameters are in the work memory; 0: none
};

class VulkanDevice final : public Device {
 public:
  VulkanDevice(std::string name, std::unique_ptr<Context> context)
      : name_(std::move(name)),
        context_(std::move(context)),
        transfers_(*context_),
        pipelines_(*context_),
        memory_(*this, *context_, transfers_, name_) {}

  Result<> create() {
    TESSERA_TRY(transfers_.create());
    TESSERA_TRY(pipelines_.create());
    const std::vector<uint32_t> words = gpu::codebook_words();
    TESSERA_ASSIGN(tables_, context_->allocate(words.size() * sizeof(uint32_t), MemoryKind::device));
    TESSERA_TRY(transfers_.write(tables_, 0, std::as_bytes(std::span(words))));
    if (context_->matrices().n_lanes != 0) check_matrices();
    return {};
  }

  std::string_view name() const override { return name_; }
  std::string description() const override { return context_->name(); }
  DeviceKind kind() const override {
    return context_->type() == VK_PHYSICAL_DEVICE_TYPE_CPU ? DeviceKind::accelerator : DeviceKind::gpu;
  }
  std::string hardware_id() const override { return fmt::format("{:02x}", fmt::join(context_->device_uuid(), "")); }
  DeviceMemory memory() const override { return {context_->total_bytes(), context_->free_bytes()}; }
  std::vector<std::pair<std::string, std::string>> properties() const override {
    const uint32_t version = context_->api_version();
    return {{"driver", context_->driver()},
            {"vulkan", fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                                   VK_API_VERSION_PATCH(version))},
            {"transfer queue", context_->has_transfer_queue() ? "its own" : "none"},
            {"subgroup", std::to_string(context_->subgroup_size())},
            {"cooperative matrices", name_of(matrices_)},
            {"validation", context_->instance().validates() ? "on" : "off"}};
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
    auto backend = std::make_unique<VulkanBackend>(*this, options.activations == ActivationPrecision::float32);
    TESSERA_TRY(backend->create());
    return backend;
  }
  Result<DevicePeaks> measure_peaks(const BackendOptions&) const override {
    return vulkan::measure_peaks(*context_, pipelines_, transfers_);
  }

  const Context& context() const { return *context_; }
  const Matrices& matrices() const { return matrices_; }
  Pipelines& pipelines() const { return pipelines_; }
  Transfers& transfers() const { return transfers_; }
  VkDeviceAddress tables() const { return tables_.address(); }

 private:
  // Uses cooperative matrices only if products with them agree with the ordinary shader's, and if the bits of a token
  // do not depend on the number of tokens.
  void check_matrices() {
    const auto plain = compute_probe(*this, kManyProbeTokens);
    matrices_ = context_->matrices();
    const auto many = compute_probe(*this, kManyProbeTokens), few = compute_probe(*this, kFewProbeTokens);
    const bool is_right = plain && many && few && probes_agree(*plain, *many) && begins_with(*many, *few);
    if (!is_right) matrices_ = {};
  }

  std::string name_;
  Matrices matrices_;
  std::unique_ptr<Context> context_;
  mutable Transfers transfers_;
  mutable Pipelines pipelines_;
  Allocation tables_;
  VulkanBufferType memory_;
};

VulkanBackend::~VulkanBackend() {
  if (fence_ != VK_NULL_HANDLE) device_.context().api().vkDestroyFence(device_.context().device(), fence_, nullptr);
}

Result<> VulkanBackend::create() {
  TESSERA_ASSIGN(fence_, device_.context().create_fence());
  TESSERA_ASSIGN(fault_, device_.context().allocate(sizeof(FaultWords), MemoryKind::host));
  return {};
}

const Device& VulkanBackend::device() const { return device_; }

StepContext VulkanBackend::context_of(const Graph& graph, std::span<const Tensor> tensors) const {
  return {.graph = graph,
          .node = graph[0],
          .tensors = tensors,
          .n_lanes = device_.context().n_lanes(),
          .matrices = is_precise_ ? Matrices{} : device_.matrices(),
          .shared_bytes = device_.context().shared_bytes()};
}

Result<std::unique_ptr<GraphPlan>> VulkanBackend::compile(const Graph& graph, std::span<const Tensor> tensors,
                                                          const BufferRange& work) {
  TESSERA_TRY(require_supported(device_, graph));
  TESSERA_TRY(require_tensors(device_, graph, tensors));
  auto plan = std::make_unique<VulkanPlan>(device_.context(), ++n_plans_);
  if (graph.size() == 0) return plan;
  PlanMemory memory{.tables = device_.tables(), .fault = fault_.address()};
  if (work.buffer != nullptr) {
    if (!device_.can_use(work.buffer->type()))
      return fail(ErrorCode::invalid_argument, "{} cannot address its work memory", device_.name());
    const auto& buffer = static_cast<const VulkanBuffer&>(*work.buffer);
    memory.work = buffer.handle();
    memory.work_offset = work.offset;
    memory.work_bytes = work.bytes;
    memory.work_address = buffer.address() + work.offset;
  }
  TESSERA_TRY(plan->compile(context_of(graph, tensors), device_.pipelines(), memory));
  device_.pipelines().save();
  return plan;
}

Result<size_t> VulkanBackend::work_bytes(const Graph& graph) const {
  TESSERA_TRY(require_supported(device_, graph));
  if (graph.size() == 0) return 0;
  std::vector<Tensor> tensors;
  tensors.reserve(to_size(graph.size()));
  for (const Node& node : graph.nodes()) tensors.push_back(Tensor{node.spec, node.name});
  return VulkanPlan::work_bytes(device_.context(), context_of(graph, tensors));
}

Result<> VulkanBackend::run(GraphPlan& plan, const CancelToken* cancel) {
  const auto& vulkan_plan = static_cast<const VulkanPlan&>(plan);
  return run_submissions(vulkan_plan, vulkan_plan.submissions(), cancel);
}

Result<std::vector<NodeTime>> VulkanBackend::run_timed(GraphPlan& plan, const CancelToken* cancel) {
  auto& vulkan_plan = static_cast<VulkanPlan&>(plan);
  TESSERA_ASSIGN(const auto submissions, vulkan_plan.timed_submissions(device_.pipelines()));
  TESSERA_TRY(run_submissions(vulkan_plan, submissions, cancel));
  return vulkan_plan.times();
}

Result<> VulkanBackend::run_submissions(const VulkanPlan& vulkan_plan, std::span<const VkCommandBuffer> submissions,
                                        const CancelToken* cancel) {
  *fault() = {};
  for (const VkCommandBuffer commands : submissions) {
    if (cancel != nullptr && cancel->cancelled()) return fail(ErrorCode::cancelled, "cancelled");
    const VkCommandBuffer both[] = {vulkan_plan.upload(), commands};
    const bool is_ready = std::exchange(ready_plan_, 0) == vulkan_plan.number();
    TESSERA_TRY(device_.context().submit(Queue::compute, std::span(both).subspan(is_ready ? 1 : 0), fence_));
    TESSERA_TRY(device_.context().wait(fence_));
    ready_plan_ = vulkan_plan.number();
  }
  return vulkan_plan.steps().check(*fault());
}

}  // namespace

std::vector<std::unique_ptr<Device>> find_devices(const Options& options) {
  std::vector<std::unique_ptr<Device>> devices;
  const auto instance = Instance::create(options);
  if (!instance) return devices;
  const auto physical = (*instance)->physical_devices();
  if (!physical) return devices;
  std::vector<std::unique_ptr<Context>> contexts;
  for (const VkPhysicalDevice one : *physical)
    if (auto context = Context::create(*instance, one); context) contexts.push_back(std::move(*context));
  // Devices that compute on the CPU come last, independent of the loader's order.
  std::ranges::stable_partition(contexts, [](const auto& c) { return c->type() != VK_PHYSICAL_DEVICE_TYPE_CPU; });
  for (auto& context : contexts) {
    auto device = std::make_unique<VulkanDevice>(fmt::format("vulkan:{}", devices.size()), std::move(context));
    if (device->create()) devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace tessera::vulkan
