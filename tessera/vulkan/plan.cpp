#include "tessera/vulkan/plan.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"
#include "tessera/vulkan/buffers.h"

namespace tessera::vulkan {

namespace {

// The number of workgroups that every device can dispatch along one dimension.
constexpr uint32_t kMaxGroups = 65535;
constexpr size_t kUpdateBytes = 65536;  // limit of vkCmdUpdateBuffer

// Multiply-adds of one submission: about a tenth of a second.
int64_t macs_per_submission(const Context& context) {
  return context.type() == VK_PHYSICAL_DEVICE_TYPE_CPU ? 100'000'000 : 100'000'000'000;
}

void record_barrier(const DeviceApi& api, VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags written,
                    VkPipelineStageFlags to, VkAccessFlags seen) {
  const VkMemoryBarrier barrier{
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .pNext = nullptr, .srcAccessMask = written, .dstAccessMask = seen};
  api.vkCmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace

VulkanPlan::~VulkanPlan() {
  const DeviceApi& api = context_.api();
  if (pool_ != VK_NULL_HANDLE) api.vkDestroyCommandPool(context_.device(), pool_, nullptr);
  if (clock_ != VK_NULL_HANDLE) api.vkDestroyQueryPool(context_.device(), clock_, nullptr);
}

Result<size_t> VulkanPlan::work_bytes(const Context&, const StepContext& of_any_node) {
  StepList steps;
  TESSERA_TRY(steps.make(of_any_node, kOwnKernels));
  return steps.work_bytes();
}

Result<> VulkanPlan::compile(const StepContext& of_any_node, Pipelines& pipelines, const PlanMemory& memory) {
  graph_ = &of_any_node.graph;
  TESSERA_TRY(steps_.make(of_any_node, kOwnKernels));
  if (const size_t need = steps_.work_bytes(); need > memory.work_bytes)
    return fail(ErrorCode::limit, "work memory of {} bytes, the graph takes {}", memory.work_bytes, need);
  if (steps_.empty()) return {};
  params_ = memory.work_address;
  steps_.bind({.work = memory.work_address, .tables = memory.tables, .fault = memory.fault});
  TESSERA_ASSIGN(pool_, context_.create_pool());
  TESSERA_TRY(record_upload(memory));
  TESSERA_ASSIGN(submissions_, record(pipelines, Clock::none));
  return {};
}

Result<> VulkanPlan::record_upload(const PlanMemory& memory) {
  const std::vector<std::byte> image = steps_.image();
  TESSERA_ASSIGN(upload_, begin_commands());
  const DeviceApi& api = context_.api();
  for (size_t done = 0; done < image.size(); done += kUpdateBytes)
    api.vkCmdUpdateBuffer(upload_, memory.work, memory.work_offset + done, std::min(kUpdateBytes, image.size() - done),
                          image.data() + done);
  record_barrier(api, upload_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
  return check(api.vkEndCommandBuffer(upload_), "vkEndCommandBuffer");
}

bool VulkanPlan::conflicts(std::span<const Touched> touched) const {
  return std::ranges::any_of(touched, [&](const Touched& a) {
    return std::ranges::any_of(
        open_, [&](const Touched& b) { return (a.is_written || b.is_written) && a.begin < b.end && b.begin < a.end; });
  });
}

Result<VkCommandBuffer> VulkanPlan::begin_commands() const {
  TESSERA_ASSIGN(const VkCommandBuffer commands, context_.create_commands(pool_));
  const VkCommandBufferBeginInfo info{
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .pNext = nullptr, .flags = 0, .pInheritanceInfo = nullptr};
  TESSERA_TRY(check(context_.api().vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer"));
  return commands;
}

// The barrier makes results visible to the host, to copies and to the next submission.
Result<> VulkanPlan::end_submission(VkCommandBuffer commands) {
  record_barrier(context_.api(), commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                 VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                     VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
  open_.clear();
  bound_ = VK_NULL_HANDLE;
  return check(context_.api().vkEndCommandBuffer(commands), "vkEndCommandBuffer");
}

Result<std::vector<VkCommandBuffer>> VulkanPlan::record(Pipelines& pipelines, Clock clock) {
  const int64_t most_macs = macs_per_submission(context_);
  int64_t macs = 0;
  open_.clear();
  bound_ = VK_NULL_HANDLE;
  std::vector<VkCommandBuffer> submissions;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    TESSERA_ASSIGN(const VkPipeline pipeline, pipelines.find(step.shader, step.variant, step.format, step.format2));
    if (submissions.empty() || macs > most_macs) {
      if (!submissions.empty()) TESSERA_TRY(end_submission(submissions.back()));
      TESSERA_ASSIGN(const VkCommandBuffer commands, begin_commands());
      submissions.push_back(commands);
      macs = 0;
    }
    macs += cost(*graph_, steps_.node_of(i)).macs;
    record_step(submissions.back(), pipelines.layout(), pipeline, i, clock);
  }
  TESSERA_TRY(end_submission(submissions.back()));
  return submissions;
}

void VulkanPlan::record_step(VkCommandBuffer commands, VkPipelineLayout layout, VkPipeline pipeline, size_t i,
                             Clock clock) {
  const DeviceApi& api = context_.api();
  const auto query = static_cast<uint32_t>(2 * i);
  if (clock == Clock::around_steps || conflicts(steps_.touched(i))) {
    record_barrier(api, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    open_.clear();
  }
  open_.insert(open_.end(), steps_.touched(i).begin(), steps_.touched(i).end());
  if (pipeline != bound_) api.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  bound_ = pipeline;
  const VkDeviceAddress params = params_ + steps_.params_offset(i);
  api.vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(params), &params);
  const uint32_t n = steps_[i].params.n_groups, wide = std::min(n, kMaxGroups);
  if (clock == Clock::around_steps) {
    api.vkCmdResetQueryPool(commands, clock_, query, 2);
    api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, clock_, query);
  }
  api.vkCmdDispatch(commands, wide, n / wide + (n % wide != 0 ? 1 : 0), 1);
  if (clock == Clock::around_steps)
    api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, clock_, query + 1);
}

Result<std::span<const VkCommandBuffer>> VulkanPlan::timed_submissions(Pipelines& pipelines) {
  if (steps_.empty() || !timed_submissions_.empty()) return std::span<const VkCommandBuffer>(timed_submissions_);
  if (context_.clock_bits() == 0)
    return fail(ErrorCode::unsupported, "{} does not tell the times of nodes", context_.name());
  const VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                   .pNext = nullptr,
                                   .flags = 0,
                                   .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                   .queryCount = static_cast<uint32_t>(2 * steps_.size()),
                                   .pipelineStatistics = 0};
  if (clock_ == VK_NULL_HANDLE)
    TESSERA_TRY(
        check(context_.api().vkCreateQueryPool(context_.device(), &info, nullptr, &clock_), "vkCreateQueryPool"));
  TESSERA_ASSIGN(timed_submissions_, record(pipelines, Clock::around_steps));
  return std::span<const VkCommandBuffer>(timed_submissions_);
}

Result<std::vector<NodeTime>> VulkanPlan::times() const {
  std::vector<NodeTime> times;
  if (steps_.empty()) return times;
  std::vector<uint64_t> ticks(2 * steps_.size());
  TESSERA_TRY(check(context_.api().vkGetQueryPoolResults(
                        context_.device(), clock_, 0, static_cast<uint32_t>(ticks.size()),
                        ticks.size() * sizeof(uint64_t), ticks.data(), sizeof(uint64_t), VK_QUERY_RESULT_64_BIT),
                    "vkGetQueryPoolResults"));
  const uint64_t mask = UINT64_MAX >> (64 - context_.clock_bits());  // the clock may wrap around
  const auto us = [&](uint64_t from, uint64_t to) {
    return static_cast<double>((to - from) & mask) * context_.clock_period_ns() * 1e-3;
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const double begin = us(ticks[0], ticks[2 * i]), length = us(ticks[2 * i], ticks[2 * i + 1]);
    if (!times.empty() && times.back().node == steps_.node_of(i))  // second dispatch of the same node
      times.back().us = begin + length - times.back().begin_us;
    else
      times.push_back({steps_.node_of(i), begin, length});
  }
  return times;
}

}  // namespace tessera::vulkan
