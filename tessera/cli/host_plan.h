// The memory of a run under mpirun, by host.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/engine/memory_report.h"

namespace tessera::cli {

struct HostPlan {
  std::string rank;  // "rank 0", "mpi:1"
  std::string host;
  size_t weights = 0, cache = 0, compute = 0;  // bytes
  uint64_t free = 0;                           // bytes
  bool has_file = true;                        // else rank 0 sends the weights

  size_t total() const { return weights + cache + compute; }
};

/// The ranks with a device that is used, rank 0 first. Empty: only rank 0 is used. Errors: io (a rank is lost); those
/// of Job::has_file().
Result<std::vector<HostPlan>> plan_of_hosts(const Engine& engine, const MemoryReport& report);

/// A table with a column per host.
std::string table_of(const std::vector<HostPlan>& hosts);
nlohmann::ordered_json json_of(const std::vector<HostPlan>& hosts);

}  // namespace tessera::cli
