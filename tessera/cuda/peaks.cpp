#include "tessera/cuda/peaks.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/cuda/plan.h"

namespace tessera::cuda {

namespace {

constexpr int kRounds = 5;
constexpr uint32_t kThreads = 256, kGroupsPerMultiprocessor = 32;
constexpr int64_t kF32Macs = 64;                     // of a loop of peak_f32, per thread
constexpr int64_t kHalfMacs = 8 * 16 * 8 * 16 / 32;  // of a loop of peak_halves, per thread of a warp
constexpr int64_t kWordBytes = 16;

// Returns the seconds of the fastest of several rounds: other users of the device can only slow a round down.
Result<double> best_seconds(const Context& context, const std::string& name, const KernelParams& params) {
  const Driver& driver = context.driver();
  TESSERA_ASSIGN(const CuFunction function, context.kernel("tessera_" + name, 0));
  CuStream stream = nullptr;
  CuEvent begin = nullptr, end = nullptr;
  const auto measure = [&]() -> Result<double> {
    TESSERA_CUDA(driver, stream_create, &stream, kCuStreamNonBlocking);
    TESSERA_CUDA(driver, event_create, &begin, kCuEventDefault);
    TESSERA_CUDA(driver, event_create, &end, kCuEventDefault);
    double best = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      KernelParams copy = params;
      void* arguments[] = {&copy};
      const CuLaunchConfig config{.grid = {params.step.n_groups, 1, 1},
                                  .block = {kThreads, 1, 1},
                                  .shared_bytes = 0,
                                  .stream = stream,
                                  .attributes = nullptr,
                                  .n_attributes = 0};
      TESSERA_CUDA(driver, event_record, begin, stream);
      TESSERA_CUDA(driver, launch, &config, function, arguments, nullptr);
      TESSERA_CUDA(driver, event_record, end, stream);
      TESSERA_CUDA(driver, stream_wait, stream);
      float ms = 0;
      TESSERA_CUDA(driver, event_elapsed, &ms, begin, end);
      best = std::min(best, std::max(double{ms}, 1e-6) * 1e-3);
    }
    return best;
  };
  const auto seconds = measure();
  if (begin != nullptr) driver.event_destroy(begin);
  if (end != nullptr) driver.event_destroy(end);
  if (stream != nullptr) driver.stream_destroy(stream);
  return seconds;
}

}  // namespace

Result<DevicePeaks> measure_peaks(const Context& context) {
  // Some milliseconds of work. The reads exceed the caches. An emulated device is given little.
  const bool is_small = context.n_multiprocessors() < 4;
  const uint32_t n_groups =
      is_small ? 2 : static_cast<uint32_t>(context.n_multiprocessors()) * kGroupsPerMultiprocessor;
  const uint32_t n_loops = is_small ? 2 : 4000;
  const int64_t n_threads = int64_t{n_groups} * kThreads;
  const int64_t n_reads = is_small ? 2 : (int64_t{1} << 30) / (n_threads * kWordBytes);
  const int64_t read_bytes = n_reads * n_threads * kWordBytes;
  TESSERA_ASSIGN(const Allocation from, context.allocate(to_size(read_bytes)));
  TESSERA_TRY(context.fill(from.address(), std::byte{1}, from.bytes()));
  TESSERA_ASSIGN(const Allocation to, context.allocate(to_size(n_threads) * sizeof(float)));
  KernelParams params;
  params.step.y.data = to.address();
  params.step.x[0].data = from.address();
  params.step.n_groups = n_groups;
  params.step.u[0] = n_loops;
  TESSERA_ASSIGN(const double f32_seconds, best_seconds(context, "peak_f32", params));
  TESSERA_ASSIGN(const double half_seconds, best_seconds(context, "peak_halves", params));
  params.step.u[0] = static_cast<uint32_t>(n_reads);
  TESSERA_ASSIGN(const double read_seconds, best_seconds(context, "peak_read", params));
  const double loops = static_cast<double>(n_threads * n_loops);
  DevicePeaks peaks;
  peaks.f32_gmacs = loops * kF32Macs / f32_seconds * 1e-9;
  peaks.int16_gmacs = loops * kHalfMacs / half_seconds * 1e-9;
  peaks.int8_gmacs = peaks.int16_gmacs;  // quantized weights are multiplied as f16, which is as fast as bf16
  peaks.read_gbps = static_cast<double>(read_bytes) / read_seconds * 1e-9;
  return peaks;
}

}  // namespace tessera::cuda
