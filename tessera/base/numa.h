// Memory nodes of the machine and what a policy makes of them: which CPUs each thread of a pool may use. Called by
// thread_pool and the command line. Memory follows by first touch: a page lies on the node of the thread that wrote it
// first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/cpu_mask.h"

namespace tessera {

enum class NumaPolicy : uint8_t {
  none,        // the scheduler places the threads
  distribute,  // thread i of n stays on node i * n_nodes / n
  isolate,     // all threads stay on the node on which they were started
  numactl,     // the threads keep the CPUs that the process was given (by numactl, taskset): as none
};

/// For each node with a CPU of the mask, in order of their numbers, its CPUs in the mask. CPUs in no node are left
/// out; all are one node where the system tells of none. `root` is put before every path (tests bring a tree of their
/// own).
std::vector<CpuMask> numa_nodes(const CpuMask& cpus, const std::string& root = "");

/// The CPUs of the mask on the node of the calling thread; those of the first node where that has none in the mask.
/// The mask is not empty.
CpuMask numa_cpus_here(const CpuMask& cpus, const std::string& root = "");

/// The CPUs of each of n threads under a policy; the mask is not empty.
std::vector<CpuMask> numa_placement(NumaPolicy policy, const CpuMask& cpus, int n_threads,
                                    const std::string& root = "");

}  // namespace tessera
