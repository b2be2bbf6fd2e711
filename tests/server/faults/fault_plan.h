// The plan by which a preloaded library (fault_injector.cpp) lets calls of a program fail. Both programs map the file
// that holds it, so a test arms and disarms faults while the program runs.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::testing {

/// Names the file with the plan in the program's environment.
inline constexpr const char* kFaultPlanVariable = "FAULT_PLAN";

enum class FaultKind : uint32_t { none, memory, read, write, accept, open, rename, sync, map };

/// Of the calls of `kind` since it was armed, those from n_skipped on fail, n_failing of them. Calls for less than
/// n_least bytes of memory do not count.
struct FaultPlan {
  std::atomic<FaultKind> kind{FaultKind::none};
  std::atomic<int64_t> n_skipped{0}, n_failing{0};
  std::atomic<uint64_t> n_least{0};
  std::atomic<int64_t> n_calls{0};
  std::atomic<int64_t> clock_offset_s{0};  // added to the time of day

  void arm(FaultKind which, int64_t skipped, int64_t failing, uint64_t least = 0) {
    disarm();
    n_least = least;
    n_calls = 0;
    n_skipped = skipped;
    n_failing = failing;
    kind = which;
  }
  void disarm() { kind = FaultKind::none; }
  /// Whether a call of this kind fails now.
  bool fails(FaultKind which, uint64_t n_bytes = UINT64_MAX) {
    if (kind.load(std::memory_order_acquire) != which || n_bytes < n_least) return false;
    const int64_t n = n_calls.fetch_add(1);
    return n >= n_skipped && n - n_skipped < n_failing;
  }
};
static_assert(std::atomic<FaultKind>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

}  // namespace tessera::testing
