// A graph as recorded command buffers. Steps run in order, with a barrier only before a step that conflicts with an
// access since the last barrier. The steps' parameters are in work memory that all plans of a backend share. A plan
// whose parameters were overwritten by another plan uploads them again before it runs.
#pragma once

#include <vector>

#include "tessera/gpu/step_list.h"
#include "tessera/vulkan/kernels.h"
#include "tessera/vulkan/pipelines.h"

namespace tessera::vulkan {

/// Memory that steps use besides their operands.
struct PlanMemory {
  VkBuffer work = VK_NULL_HANDLE;
  size_t work_offset = 0, work_bytes = 0;
  VkDeviceAddress work_address = 0;  // including work_offset
  VkDeviceAddress tables = 0, fault = 0;
};

class VulkanPlan final : public GraphPlan {
 public:
  /// number: unique among the plans of a backend.
  VulkanPlan(const Context& context, uint64_t number) : context_(context), number_(number) {}
  ~VulkanPlan() override;

  /// Returns the bytes of work memory that a graph needs. Its tensors need no memory. A graph of the same nodes with
  /// smaller values does not need more. Errors: errors of the kernels.
  static Result<size_t> work_bytes(const Context& context, const StepContext& of_any_node);

  /// Binds the steps of a graph to memory. Errors: limit (the work memory is too small); errors of kernels and
  /// pipelines.
  Result<> compile(const StepContext& of_any_node, Pipelines& pipelines, const PlanMemory& memory);

  uint64_t number() const { return number_; }
  /// Copies the parameters to the work memory; submitted before the first of submissions().
  VkCommandBuffer upload() const { return upload_; }
  /// Command buffers in order. Each is submitted when the previous one has finished, so a run can be cancelled between
  /// them.
  std::span<const VkCommandBuffer> submissions() const { return submissions_; }

  /// The same steps without overlap, with timestamps before and after each. Recorded on the first call.
  /// Errors: unsupported (the queue has no clock).
  Result<std::span<const VkCommandBuffer>> timed_submissions(Pipelines& pipelines);
  /// Returns when each node ran in the last run of timed_submissions().
  Result<std::vector<NodeTime>> times() const;

  const StepList& steps() const { return steps_; }

 private:
  enum class Clock : uint8_t { none, around_steps };

  Result<> record_upload(const PlanMemory& memory);
  Result<std::vector<VkCommandBuffer>> record(Pipelines& pipelines, Clock clock);
  void record_step(VkCommandBuffer commands, VkPipelineLayout layout, VkPipeline pipeline, size_t i, Clock clock);
  Result<VkCommandBuffer> begin_commands() const;
  Result<> end_submission(VkCommandBuffer commands);
  bool conflicts(std::span<const Touched> touched) const;

  const Context& context_;
  uint64_t number_;
  const Graph* graph_ = nullptr;
  StepList steps_;
  VkDeviceAddress params_ = 0;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkQueryPool clock_ = VK_NULL_HANDLE;  // two queries per step
  VkCommandBuffer upload_ = VK_NULL_HANDLE;
  std::vector<VkCommandBuffer> submissions_, timed_submissions_;
  VkPipeline bound_ = VK_NULL_HANDLE;  // the bound pipeline while recording
  std::vector<Touched> open_;          // accesses since the last barrier
};

}  // namespace tessera::vulkan
