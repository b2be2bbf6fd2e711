#include "tessera/vulkan/peaks.h"

#include <algorithm>
#include <chrono>

#include "tessera/base/index.h"

namespace tessera::vulkan {

namespace {

constexpr int kRounds = 5;
constexpr int64_t kMacsPerLoop = 32;
constexpr int64_t kQuadBytes = 16;

// A dispatch to measure: recorded once, run several times.
class Trial {
 public:
  explicit Trial(const Context& context) : context_(context) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    if (fence_ != VK_NULL_HANDLE) context_.api().vkDestroyFence(context_.device(), fence_, nullptr);
    if (pool_ != VK_NULL_HANDLE) context_.api().vkDestroyCommandPool(context_.device(), pool_, nullptr);
  }

  Result<> record(Pipelines& pipelines, uint32_t variant, VkDeviceAddress params, uint32_t n_groups) {
    const DeviceApi& api = context_.api();
    TESSERA_ASSIGN(const VkPipeline pipeline, pipelines.find(Shader::peak, variant, DType::f32, DType::f32));
    TESSERA_ASSIGN(pool_, context_.create_pool());
    TESSERA_ASSIGN(commands_, context_.create_commands(pool_));
    TESSERA_ASSIGN(fence_, context_.create_fence());
    const VkCommandBufferBeginInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                        .pNext = nullptr,
                                        .flags = 0,
                                        .pInheritanceInfo = nullptr};
    TESSERA_TRY(check(api.vkBeginCommandBuffer(commands_, &info), "vkBeginCommandBuffer"));
    api.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    api.vkCmdPushConstants(commands_, pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(params), &params);
    api.vkCmdDispatch(commands_, n_groups, 1, 1);
    return check(api.vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
  }

  /// Returns the seconds of the fastest of several rounds: other users of the device can only slow a round down.
  Result<double> best_seconds() const {
    double best = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      const auto start = std::chrono::steady_clock::now();
      TESSERA_TRY(context_.submit(Queue::compute, {&commands_, 1}, fence_));
      TESSERA_TRY(context_.wait(fence_));
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  }

 private:
  const Context& context_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
};

}  // namespace

Result<DevicePeaks> measure_peaks(const Context& context, Pipelines& pipelines, Transfers& transfers) {
  // Some milliseconds of work, in more workgroups than any device runs at a time. The reads exceed its caches.
  const bool is_cpu = context.type() == VK_PHYSICAL_DEVICE_TYPE_CPU;
  const uint32_t n_groups = is_cpu ? 1024 : 16384, n_loops = is_cpu ? 1000 : 4000;
  const int64_t n_invocations = int64_t{n_groups} * context.n_lanes();
  const int64_t read_bytes = std::max(int64_t{is_cpu ? 64 : 256} << 20, n_invocations * kQuadBytes);
  const int64_t n_reads = read_bytes / (n_invocations * kQuadBytes);

  TESSERA_ASSIGN(const Allocation from, context.allocate(to_size(read_bytes), MemoryKind::device));
  TESSERA_TRY(transfers.fill(from, std::byte{1}));
  TESSERA_ASSIGN(const Allocation to, context.allocate(to_size(n_invocations) * sizeof(float), MemoryKind::device));
  TESSERA_ASSIGN(const Allocation params_memory, context.allocate(2 * sizeof(StepParams), MemoryKind::device));
  std::array<StepParams, 2> params;
  for (StepParams& p : params) {
    p.y.data = to.address();
    p.x[0].data = from.address();
    p.n_groups = n_groups;
  }
  params[0].u[0] = n_loops;
  params[1].u[0] = static_cast<uint32_t>(n_reads);
  TESSERA_TRY(transfers.write(params_memory, 0, std::as_bytes(std::span(params))));

  std::array<double, 2> seconds{};
  for (uint32_t variant = 0; variant < seconds.size(); ++variant) {
    Trial trial(context);
    TESSERA_TRY(trial.record(pipelines, variant, params_memory.address() + variant * sizeof(StepParams), n_groups));
    TESSERA_ASSIGN(seconds[variant], trial.best_seconds());
  }
  DevicePeaks peaks;
  peaks.f32_gmacs = static_cast<double>(n_invocations * n_loops * kMacsPerLoop) / seconds[0] * 1e-9;
  peaks.int8_gmacs = peaks.int16_gmacs = peaks.f32_gmacs;  // all multiply-adds are in floats
  peaks.read_gbps = static_cast<double>(n_reads * n_invocations * kQuadBytes) / seconds[1] * 1e-9;
  return peaks;
}

}  // namespace tessera::vulkan
