#include "tessera/vulkan/plan.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/graph/op_info.h"
#include "tessera/vulkan/buffers.h"

namespace tessera::vulkan {

namespace {

// What every device can dispatch along one dimension.
constexpr uint32_t kMaxGroups = 65535;
constexpr size_t kParamsAlignment = 16;

// Multiply-adds of one submission: about a tenth of a second.
int64_t macs_per_submission(const Context& context) {
  return context.type() == VK_PHYSICAL_DEVICE_TYPE_CPU ? 100'000'000 : 100'000'000'000;
}

VkDeviceAddress address_of(const Tensor& place) {
  return static_cast<const VulkanBuffer*>(place.buffer)->address() + place.offset;
}

OperandParams operand_of(const Tensor& place) {
  OperandParams params{.data = address_of(place), .ne = {}, .nb = {}};
  for (size_t i = 0; i < kMaxRank; ++i) {
    params.ne[i] = static_cast<uint32_t>(place.layout.shape.ne[i]);
    params.nb[i] = static_cast<uint32_t>(place.layout.nb[i]);
  }
  return params;
}

// Operations with a memory write it beside their result.
bool writes_state(const Node& node, size_t source) {
  switch (node.op) {
    case Op::kv_store:
      return source == 0;
    case Op::causal_conv:
      return source == 2;
    case Op::token_shift:
    case Op::selective_scan:
    case Op::delta_net:
    case Op::rwkv7:
      return source + 2 == node.n_sources;
    default:
      return false;
  }
}

}  // namespace

VulkanPlan::~VulkanPlan() {
  if (pool_ != VK_NULL_HANDLE) context_.api().vkDestroyCommandPool(context_.device(), pool_, nullptr);
}

Result<> VulkanPlan::compile(const StepContext& of_any_node, Pipelines& pipelines, Transfers& transfers,
                             VkDeviceAddress tables, VkDeviceAddress fault) {
  TESSERA_TRY(make_steps(of_any_node));
  TESSERA_TRY(upload(transfers, tables, fault));
  return record(pipelines, of_any_node.graph);
}

Result<> VulkanPlan::make_steps(const StepContext& of_any_node) {
  const Graph& graph = of_any_node.graph;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    const OpKernel* kernel = kernel_of(node.op);
    if (kernel == nullptr) continue;
    const StepContext context{graph, node, of_any_node.places, of_any_node.n_lanes};
    Step step{.node = &node, .params = {}, .extra = {}};
    std::vector<Touched> touched;
    const auto touch = [&](const Tensor& place, bool is_written) {
      const VkDeviceAddress begin = address_of(place);
      touched.push_back({begin, begin + span_bytes(place.dtype, place.layout), is_written});
    };
    const Tensor& place = of_any_node.places[static_cast<size_t>(id)];
    step.params.y = operand_of(place);
    touch(place, true);
    for (size_t i = 0; i < node.n_sources; ++i) {
      if (!context.has(i)) continue;
      step.params.x[i] = operand_of(context.place(i));
      touch(context.place(i), writes_state(node, i));
    }
    TESSERA_TRY(kernel->prepare(context, step));
    if (step.params.n_groups == 0) continue;
    steps_.push_back(std::move(step));
    touched_.push_back(std::move(touched));
  }
  return {};
}

Result<> VulkanPlan::upload(Transfers& transfers, VkDeviceAddress tables, VkDeviceAddress fault) {
  size_t bytes = 0;
  for (const Step& step : steps_) {
    params_offsets_.push_back(bytes);
    bytes += round_up(sizeof(StepParams) + step.extra.size() * sizeof(uint32_t), kParamsAlignment);
  }
  TESSERA_ASSIGN(params_, context_.allocate(bytes, Placement::device));
  std::vector<std::byte> image(bytes);
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    step.params.tables = tables;
    step.params.fault = fault;
    step.params.id = static_cast<uint32_t>(i);
    step.params.extra = params_.address() + params_offsets_[i] + sizeof(StepParams);
    std::memcpy(image.data() + params_offsets_[i], &step.params, sizeof(StepParams));
    if (!step.extra.empty())
      std::memcpy(image.data() + params_offsets_[i] + sizeof(StepParams), step.extra.data(),
                  step.extra.size() * sizeof(uint32_t));
  }
  return image.empty() ? Result<>{} : transfers.write(params_, 0, image);
}

bool VulkanPlan::conflicts(std::span<const Touched> touched) const {
  return std::ranges::any_of(touched, [&](const Touched& a) {
    return std::ranges::any_of(
        open_, [&](const Touched& b) { return (a.is_written || b.is_written) && a.begin < b.end && b.begin < a.end; });
  });
}

Result<> VulkanPlan::begin_submission() {
  TESSERA_ASSIGN(const VkCommandBuffer commands, context_.create_commands(pool_));
  submissions_.push_back(commands);
  const VkCommandBufferBeginInfo info{
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .pNext = nullptr, .flags = 0, .pInheritanceInfo = nullptr};
  return check(context_.api().vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer");
}

// What was computed is seen by whatever comes next: the host, copies, the next submission.
Result<> VulkanPlan::end_submission() {
  const VkMemoryBarrier all{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                            .pNext = nullptr,
                            .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                            .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                             VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_HOST_READ_BIT};
  context_.api().vkCmdPipelineBarrier(
      submissions_.back(), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0,
      nullptr, 0, nullptr);
  open_.clear();
  return check(context_.api().vkEndCommandBuffer(submissions_.back()), "vkEndCommandBuffer");
}

Result<> VulkanPlan::record(Pipelines& pipelines, const Graph& graph) {
  const DeviceApi& api = context_.api();
  TESSERA_ASSIGN(pool_, context_.create_pool());
  const int64_t most_macs = macs_per_submission(context_);
  int64_t macs = 0;
  VkPipeline bound = VK_NULL_HANDLE;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (submissions_.empty() || macs > most_macs) {
      if (!submissions_.empty()) TESSERA_TRY(end_submission());
      TESSERA_TRY(begin_submission());
      macs = 0;
      bound = VK_NULL_HANDLE;
    }
    macs += cost(graph, static_cast<NodeId>(step.node - graph.nodes().data())).macs;
    TESSERA_ASSIGN(const VkPipeline pipeline, pipelines.find(step.shader, step.variant, step.format, step.format2));
    const VkCommandBuffer commands = submissions_.back();
    if (conflicts(touched_[i])) {
      const VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                    .pNext = nullptr,
                                    .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                    .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
      api.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0,
                               1, &barrier, 0, nullptr, 0, nullptr);
      open_.clear();
    }
    open_.insert(open_.end(), touched_[i].begin(), touched_[i].end());
    if (pipeline != bound) api.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    bound = pipeline;
    const VkDeviceAddress params = params_.address() + params_offsets_[i];
    api.vkCmdPushConstants(commands, pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(params), &params);
    const uint32_t n = step.params.n_groups, wide = std::min(n, kMaxGroups);
    api.vkCmdDispatch(commands, wide, n / wide + (n % wide != 0 ? 1 : 0), 1);
  }
  return submissions_.empty() ? Result<>{} : end_submission();
}

}  // namespace tessera::vulkan
