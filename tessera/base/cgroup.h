// CPU and memory limits that control groups (version 1, 2 or both) set for this process. In a container with 2 CPUs and
// 4 GiB, /proc still shows the whole host. Called by cpu_info.
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

/// Returns the tightest limits among this process's groups and the groups above them, up to the mounted root. A missing
/// or unreadable file sets no limit. `root` is a prefix for every path (tests pass a directory of their own).
CgroupLimits cgroup_limits(const std::string& root = "");

}  // namespace tessera
