// Memory nodes of the machine, and the CPUs that each thread of a pool may use under a NUMA policy. Called by
// thread_pool and the command line. Memory is placed by first touch: a page is on the node of the thread that first
// wrote it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/cpu_mask.h"

namespace tessera {

enum class NumaPolicy : uint8_t {
  none,        // the scheduler places the threads
  distribute,  // thread i of n stays on node i * n_nodes / n
  isolate,     // all threads stay on the node on which the pool was created
  numactl,     // as none: the threads keep the CPUs given to the process (by numactl, taskset)
};

/// For each node with a CPU of the mask, in ascending order of node number, its CPUs in the mask. CPUs without a node
/// are left out. If the system reports no nodes, all CPUs form one node. `root` is a prefix for every path (tests pass
/// a directory of their own).
std::vector<CpuMask> numa_nodes(const CpuMask& cpus, const std::string& root = "");

/// The CPUs of the mask on the node of the calling thread, or on the first node if that has no CPU in the mask. The
/// mask is not empty.
CpuMask numa_cpus_here(const CpuMask& cpus, const std::string& root = "");

/// The CPUs of each of n threads under a policy. The mask is not empty.
std::vector<CpuMask> numa_placement(NumaPolicy policy, const CpuMask& cpus, int n_threads,
                                    const std::string& root = "");

}  // namespace tessera
