// The machine as this process may use it: instruction sets, CPUs, caches, memory. Asked at start-up by the
// kernel dispatch, the thread pool's owner and the memory plan. Nothing here is inline: the kernels that are
// compiled for newer CPUs must not bring along a second copy of the code that decides whether to run them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/cpu_mask.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "GGUF data is used in place: little-endian hosts only");

/// Instruction sets that both the CPU and the operating system support (the registers are saved on a switch).
/// All false on other architectures than x86-64. AMX also needs the process's permission request
/// (arch_prctl).
struct CpuFeatures {
  bool ssse3 = false, sse4_1 = false, sse4_2 = false, popcnt = false;
  bool avx = false, avx2 = false, fma = false, f16c = false, bmi1 = false, bmi2 = false;
  bool avx512f = false, avx512bw = false, avx512dq = false, avx512vl = false;
  bool avx512_vnni = false, avx512_bf16 = false, avx512vbmi = false;
  bool avx_vnni = false;
  bool amx_tile = false, amx_int8 = false, amx_bf16 = false;
};

/// Asks the CPU; a virtual machine may trap each question, so ask once.
CpuFeatures cpu_features();

/// Whether a CPU runs what cmake/isa.cmake compiles for a set: every feature that the set's compiler flags name.
bool runs_avx2_code(const CpuFeatures& features);
bool runs_avx512_code(const CpuFeatures& features);

/// "ssse3 sse4_1 avx2 ...": the names of /proc/cpuinfo.
std::string to_string(const CpuFeatures& features);

/// The processor's own name, or "unknown".
std::string cpu_brand();

// The functions below read /sys and /proc; `root` is put before every path (tests bring a tree of their own).

/// Physical cores with at least one CPU in the mask: hyperthreads of one core count once.
int n_physical_cores(const CpuMask& cpus, const std::string& root = "");

/// Threads for compute-bound work on these CPUs: one per physical core that is online, without cores that would hold
/// up the others (Intel's efficiency cores, little cores), bounded by the whole CPUs of the cgroup's quota (a throttled
/// thread holds up all others at the next barrier). 1 to ThreadPool::kMaxThreads.
int default_thread_count(const CpuMask& cpus = thread_affinity(), const std::string& root = "");

/// Caches that one CPU sees; 0 where unknown.
struct CacheSizes {
  size_t l1d_bytes = 0;
  size_t l2_bytes = 0;
  size_t l3_bytes = 0;
};
CacheSizes cache_sizes(int cpu, const std::string& root = "");

/// Memory of the machine, or of the cgroup where that is less; 0 where unknown.
struct MemoryInfo {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // without swapping; page cache counts
};
MemoryInfo memory_info(const std::string& root = "");

}  // namespace tessera
