// What the control groups of this process (version 1, 2 or both) leave it of the machine: a container with
// 2 CPUs and 4 GiB still sees all of the host in /proc. Called by cpu_info.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace tessera {

struct CgroupLimits {
  double n_cpus = std::numeric_limits<double>::infinity();  // CPU time per wall time
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();
  uint64_t memory_free_bytes = std::numeric_limits<uint64_t>::max();  // page cache counts as free
};

/// The tightest limits on the way from this process's groups up to the mounted root; no limit where
/// a file is missing or unreadable. `root` is put before every path (tests bring a tree of their own).
CgroupLimits cgroup_limits(const std::string& root = "");

}  // namespace tessera
