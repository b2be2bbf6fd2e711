// The hardware that this process may use: instruction sets, CPUs, caches and memory. Read at start-up by the kernel
// dispatch, the creator of the thread pool and the memory plan. No function here is inline, because kernels compiled
// for newer CPUs must not contain a second copy of the code that decides whether to run them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/cpu_mask.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "GGUF data is used in place: little-endian hosts only");

/// Instruction sets that both the CPU and the operating system support (the system saves their registers on a context
/// switch). All false on architectures other than x86-64. AMX also needs a permission request by the process
/// (arch_prctl).
struct CpuFeatures {
  bool ssse3 = false, sse4_1 = false, sse4_2 = false, popcnt = false;
  bool avx = false, avx2 = false, fma = false, f16c = false, bmi1 = false, bmi2 = false;
  bool avx512f = false, avx512bw = false, avx512dq = false, avx512vl = false;
  bool avx512_vnni = false, avx512_bf16 = false, avx512vbmi = false;
  bool avx_vnni = false;
  bool amx_tile = false, amx_int8 = false, amx_bf16 = false;
};

/// Queries the CPU. Call it once and keep the result: a virtual machine may trap each query.
CpuFeatures cpu_features();

/// True if the CPU has every feature that cmake/isa.cmake enables in the compiler flags of an instruction set.
bool runs_avx2_code(const CpuFeatures& features);
bool runs_avxvnni_code(const CpuFeatures& features);
bool runs_avx512_code(const CpuFeatures& features);
bool runs_amx_code(const CpuFeatures& features);

/// Asks the system to let all threads of this process use the tile registers of AMX. Returns whether they may.
bool permit_tile_registers();

/// "ssse3 sse4_1 avx2 ...": feature names as in /proc/cpuinfo.
std::string to_string(const CpuFeatures& features);

/// The brand name of the processor, or "unknown".
std::string cpu_brand();

// The functions below read /sys and /proc. `root` is a prefix for every path (tests pass a directory of their own).

/// Number of physical cores with at least one CPU in the mask. Hyperthreads of one core count once.
int n_physical_cores(const CpuMask& cpus, const std::string& root = "");

/// Number of threads for compute-bound work on these CPUs, from 1 to ThreadPool::kMaxThreads. It is one per online
/// physical core, without cores that would slow down the others (Intel's efficiency cores, little cores). It does not
/// exceed the number of whole CPUs in the cgroup's quota: a throttled thread delays all others at the next barrier.
int default_thread_count(const CpuMask& cpus = thread_affinity(), const std::string& root = "");

/// Sizes of the caches that one CPU uses; 0 if unknown.
struct CacheSizes {
  size_t l1d_bytes = 0;
  size_t l2_bytes = 0;
  size_t l3_bytes = 0;
};
CacheSizes cache_sizes(int cpu, const std::string& root = "");

/// Memory of the machine, or of the cgroup if that is less; 0 if unknown.
struct MemoryInfo {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // without swapping; page cache counts as available
};
MemoryInfo memory_info(const std::string& root = "");

}  // namespace tessera
