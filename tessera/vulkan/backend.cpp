#include "tessera/vulkan/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/graph/op_info.h"
#include "tessera/vulkan/buffers.h"
#include "tessera/vulkan/peaks.h"
#include "tessera/vulkan/plan.h"
#include "tessera/vulkan/tables.h"

namespace tessera::vulkan {

namespace {

constexpr int64_t kMaxBlockDim = 1024;  // of a head, in attention.comp

std::string_view what_of(uint32_t fault) {
  constexpr std::string_view kNames[] = {"value", "row",    "cell",  "sequence", "position",
                                         "block", "expert", "token", "state"};
  return kNames[fault < std::size(kNames) ? fault : 0];
}

class VulkanDevice;

class VulkanBackend final : public Backend {
 public:
  explicit VulkanBackend(const VulkanDevice& device) : device_(device) {}
  ~VulkanBackend() override;
  Result<> create();

  const Device& device() const override;
  Result<size_t> work_bytes(const Graph& graph) const override {
    TESSERA_TRY(want_supported(graph));
    return 0;
  }
  Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> places,
                                             std::span<std::byte> work) override;
  Result<> run(GraphPlan& plan, const CancelToken* cancel) override;

 private:
  Result<> want_supported(const Graph& graph) const;
  FaultWords* fault() const { return reinterpret_cast<FaultWords*>(fault_.mapped()); }

  const VulkanDevice& device_;
  VkFence fence_ = VK_NULL_HANDLE;
  Allocation fault_;
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
    const std::vector<uint32_t> words = codebook_words();
    TESSERA_ASSIGN(tables_, context_->allocate(words.size() * sizeof(uint32_t), Placement::device));
    return transfers_.write(tables_, 0, std::as_bytes(std::span(words)));
  }

  std::string_view name() const override { return name_; }
  std::string description() const override { return context_->name(); }
  DeviceKind kind() const override {
    return context_->type() == VK_PHYSICAL_DEVICE_TYPE_CPU ? DeviceKind::accelerator : DeviceKind::gpu;
  }
  DeviceMemory memory() const override { return {context_->total_bytes(), context_->free_bytes()}; }
  std::vector<std::pair<std::string, std::string>> properties() const override {
    const uint32_t version = context_->api_version();
    return {{"driver", context_->driver()},
            {"vulkan", fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                                   VK_API_VERSION_PATCH(version))},
            {"subgroup", std::to_string(context_->subgroup_size())},
            {"validation", context_->instance().validates() ? "on" : "off"}};
  }

  const BufferType& buffer_type() const override { return memory_; }
  const BufferType& weight_buffer_type(Op, DType, const Shape&) const override { return memory_; }
  bool can_use(const BufferType& type) const override { return &type == &memory_; }
  bool supports(const Graph& graph, NodeId id) const override {
    const Node& node = graph[id];
    if (node.is_leaf() || node.op == Op::view) return true;
    const OpKernel* kernel = kernel_of(node.op);
    return kernel != nullptr && can_address(graph, id) &&
           (kernel->supports == nullptr || kernel->supports(graph, node));
  }
  bool supports_kv(DType dtype, KvSide, int64_t dim) const override {
    if (dim < 1 || dim > kMaxBlockDim) return false;
    // A token's row is whole words, so that no two invocations write one.
    return dtype == DType::f32 || ((dtype == DType::f16 || dtype == DType::bf16) && dim % 2 == 0);
  }
  Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte>) const override {
    return fail(ErrorCode::unsupported, "{} has no use for the host's memory", name_);
  }
  Result<std::unique_ptr<Backend>> create_backend(const BackendOptions&) const override {
    auto backend = std::make_unique<VulkanBackend>(*this);
    TESSERA_TRY(backend->create());
    return backend;
  }
  Result<DevicePeaks> measure_peaks(const BackendOptions&) const override {
    return vulkan::measure_peaks(*context_, pipelines_, transfers_);
  }

  const Context& context() const { return *context_; }
  Pipelines& pipelines() const { return pipelines_; }
  Transfers& transfers() const { return transfers_; }
  VkDeviceAddress tables() const { return tables_.address(); }

 private:
  // Operands in this device's memory (where their memory is known), with extents and strides that shaders can hold.
  bool can_address(const Graph& graph, NodeId id) const {
    if (!fits(graph[id].spec)) return false;
    for (const NodeId source : graph[id].inputs()) {
      if (source == kNoNode) continue;
      const Node& storage = graph[graph.storage(source)];
      const BufferType* type = storage.op == Op::tensor ? storage.tensor->buffer_type : nullptr;
      if ((type != nullptr && !can_use(*type)) || !fits(graph[source].spec)) return false;
    }
    return true;
  }
  static bool fits(const TensorSpec& spec) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    for (int i = 0; i < kMaxRank; ++i)
      if (spec.shape()[i] > kMost || spec.layout.nb[static_cast<size_t>(i)] > 2 * kMost) {
        const bool steps = spec.shape()[i] > 1;  // along one element no stride is used
        if (spec.shape()[i] > kMost || steps) return false;
      }
    return spec.shape().n_rows() <= kMost;
  }

  std::string name_;
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
  TESSERA_ASSIGN(fault_, device_.context().allocate(sizeof(FaultWords), Placement::host));
  return {};
}

const Device& VulkanBackend::device() const { return device_; }

Result<> VulkanBackend::want_supported(const Graph& graph) const {
  for (NodeId id = 0; id < graph.size(); ++id)
    if (!device_.supports(graph, id))
      return fail(ErrorCode::unsupported, "{} cannot run {}", device_.name(), describe(graph, id));
  return {};
}

Result<std::unique_ptr<GraphPlan>> VulkanBackend::compile(const Graph& graph, std::span<const Tensor> places,
                                                          std::span<std::byte>) {
  TESSERA_TRY(want_supported(graph));
  if (places.size() != static_cast<size_t>(graph.size()))
    return fail(ErrorCode::invalid_argument, "{} places for {} nodes", places.size(), graph.size());
  for (const Tensor& place : places)
    if (place.buffer == nullptr || !device_.can_use(place.buffer->type()))
      return fail(ErrorCode::invalid_argument, "{} has no memory that {} can address", place.name, device_.name());
  auto plan = std::make_unique<VulkanPlan>(device_.context());
  if (graph.size() == 0) return plan;
  const StepContext context{graph, graph[0], places, device_.context().n_lanes()};
  TESSERA_TRY(plan->compile(context, device_.pipelines(), device_.transfers(), device_.tables(), fault_.address()));
  return plan;
}

Result<> VulkanBackend::run(GraphPlan& plan, const CancelToken* cancel) {
  const auto& vulkan_plan = static_cast<const VulkanPlan&>(plan);
  *fault() = {};
  for (const VkCommandBuffer commands : vulkan_plan.submissions()) {
    if (cancel != nullptr && cancel->cancelled()) return fail(ErrorCode::cancelled, "cancelled");
    TESSERA_TRY(device_.context().submit(commands, fence_));
    TESSERA_TRY(device_.context().wait(fence_));
  }
  const FaultWords found = *fault();
  if (found.step == 0) return {};
  const Node& node = vulkan_plan.node(found.step - 1);
  return fail(ErrorCode::invalid_argument, "{} {}: {} {}, want 0 to {}", info(node.op).name, node.name,
              what_of(found.what), found.value, int64_t{found.limit} - 1);
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
  // What computes on the processor comes last, whatever order the loader has.
  std::ranges::stable_partition(contexts, [](const auto& c) { return c->type() != VK_PHYSICAL_DEVICE_TYPE_CPU; });
  for (auto& context : contexts) {
    auto device = std::make_unique<VulkanDevice>(fmt::format("vulkan:{}", devices.size()), std::move(context));
    if (device->create()) devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace tessera::vulkan
