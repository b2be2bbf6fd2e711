#include "tessera/base/numa.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "tessera/base/file.h"
#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr uint64_t kMaxNodeFileBytes = 1 << 16;

// The set in a file of /sys, or an empty set if the file cannot be read or is not a list.
CpuMask read_list(const std::string& path) {
  std::string text = read_file(path, kMaxNodeFileBytes).value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return CpuMask::from_list(text).value_or(CpuMask{});
}

}  // namespace

std::vector<CpuMask> numa_nodes(const CpuMask& cpus, const std::string& root) {
  const std::string dir = root + "/sys/devices/system/node";
  std::vector<CpuMask> nodes;
  // Node numbers have the same format as CPU numbers, and there are no more nodes than CPUs.
  for (const int node : read_list(dir + "/online").cpus())
    if (const CpuMask mine = read_list(fmt::format("{}/node{}/cpulist", dir, node)) & cpus; !mine.empty())
      nodes.push_back(mine);
  if (nodes.empty()) nodes.push_back(cpus);
  return nodes;
}

CpuMask numa_cpus_here(const CpuMask& cpus, const std::string& root) {
  const int here = ::sched_getcpu();
  const std::vector<CpuMask> nodes = numa_nodes(cpus, root);
  const auto found = std::ranges::find_if(nodes, [&](const CpuMask& node) { return node.contains(here); });
  return found == nodes.end() ? nodes.front() : *found;
}

std::vector<CpuMask> numa_placement(NumaPolicy policy, const CpuMask& cpus, int n_threads, const std::string& root) {
  const auto n = to_size(n_threads);
  if (policy == NumaPolicy::isolate) return {n, numa_cpus_here(cpus, root)};
  if (policy != NumaPolicy::distribute) return {n, cpus};
  const std::vector<CpuMask> nodes = numa_nodes(cpus, root);
  std::vector<CpuMask> placement;
  for (size_t i = 0; i < n; ++i) placement.push_back(nodes[i * nodes.size() / n]);
  return placement;
}

}  // namespace tessera
