// A graph as recorded command buffers: steps in order, with barriers only where one reads or writes what another wrote
// or reads since the last barrier.
#pragma once

#include <string>
#include <vector>

#include "tessera/vulkan/pipelines.h"
#include "tessera/vulkan/step.h"
#include "tessera/vulkan/transfers.h"

namespace tessera::vulkan {

/// Words that shaders report faults in; the host reads them after each run.
struct FaultWords {
  uint32_t step;  // its number + 1, or 0
  uint32_t what;
  int32_t value;
  uint32_t limit;
};

class VulkanPlan final : public GraphPlan {
 public:
  explicit VulkanPlan(const Context& context) : context_(context) {}
  ~VulkanPlan() override;

  /// Binds the steps of a graph to memory. `fault` and `tables` are addresses.
  Result<> compile(const StepContext& of_any_node, Pipelines& pipelines, Transfers& transfers, VkDeviceAddress tables,
                   VkDeviceAddress fault);

  /// In order; one is submitted when the one before is done, so that a run can be stopped between them.
  std::span<const VkCommandBuffer> submissions() const { return submissions_; }
  /// The node of a step, for messages.
  const Node& node(size_t step) const { return *steps_[step].node; }

 private:
  // Bytes of the device that a step touches.
  struct Touched {
    VkDeviceAddress begin, end;
    bool is_written;
  };

  Result<> make_steps(const StepContext& of_any_node);
  Result<> upload(Transfers& transfers, VkDeviceAddress tables, VkDeviceAddress fault);
  Result<> record(Pipelines& pipelines, const Graph& graph);
  bool conflicts(std::span<const Touched> touched) const;
  Result<> begin_submission();
  Result<> end_submission();

  const Context& context_;
  std::vector<Step> steps_;
  std::vector<std::vector<Touched>> touched_;  // by step
  std::vector<size_t> params_offsets_;         // by step
  Allocation params_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<VkCommandBuffer> submissions_;
  std::vector<Touched> open_;  // since the last barrier
};

}  // namespace tessera::vulkan
