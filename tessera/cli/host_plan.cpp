#include "tessera/cli/host_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/app/job.h"
#include "tessera/cli/console.h"

namespace tessera::cli {

namespace {

std::string property_of(const Device& device, std::string_view name) {
  for (auto& [key, value] : device.properties())
    if (key == name) return value;
  return "";
}

Result<bool> has_files(Job& job, int rank, const ModelFiles& files) {
  for (const auto& file : files.files()) {
    if (file->file() == nullptr) return false;
    TESSERA_ASSIGN(const bool has, job.has_file(rank, {.path = file->file()->path(), .file = file->bytes()}));
    if (!has) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<HostPlan>> plan_of_hosts(const Engine& engine, const MemoryReport& report) {
  Job* job = Job::current();
  if (job == nullptr) return std::vector<HostPlan>();
  std::vector<HostPlan> hosts = {{.rank = "rank 0", .host = job->host(), .free = 0}};
  for (const Device* device : engine.devices()) {
    const std::string rank = property_of(*device, "rank");
    const std::string name = rank.empty() ? hosts.front().rank : "mpi:" + rank;
    if (std::ranges::find(hosts, name, &HostPlan::rank) == hosts.end()) {
      hosts.push_back({.rank = name, .host = property_of(*device, "host")});
      TESSERA_ASSIGN(hosts.back().has_file, has_files(*job, std::stoi(rank), engine.files()));
    }
    HostPlan& host = *std::ranges::find(hosts, name, &HostPlan::rank);
    host.free += device->memory().free_bytes;
    for (const MemoryPart& part : report.parts) {
      if (part.device != device->name()) continue;
      (part.kind == MemoryPart::Kind::weights ? host.weights
       : part.kind == MemoryPart::Kind::cache ? host.cache
                                              : host.compute) += part.bytes;
    }
  }
  // Results lie in memory of rank 0 that is no device's.
  hosts.front().compute += report.bytes(MemoryPart::Kind::output);
  if (hosts.size() < 2) hosts.clear();
  return hosts;
}

std::string table_of(const std::vector<HostPlan>& hosts) {
  std::vector<std::vector<std::string>> rows = {{"bytes"}, {"weights"}, {"kv"},          {"compute"},
                                                {"total"}, {"free"},    {"weights from"}};
  std::string align = "l";
  for (const HostPlan& host : hosts) {
    const std::string cells[] = {fmt::format("{} ({})", host.rank, host.host),
                                 std::to_string(host.weights),
                                 std::to_string(host.cache),
                                 std::to_string(host.compute),
                                 std::to_string(host.total()),
                                 std::to_string(host.free),
                                 host.has_file ? "its own file" : "rank 0"};
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(cells[i]);
    align += 'r';
  }
  return "\n" + format_table(rows, align) + "\n";
}

nlohmann::ordered_json json_of(const std::vector<HostPlan>& hosts) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const HostPlan& host : hosts)
    json.push_back({{"rank", host.rank},
                    {"host", host.host},
                    {"weights_bytes", host.weights},
                    {"kv_bytes", host.cache},
                    {"compute_bytes", host.compute},
                    {"total_bytes", host.total()},
                    {"free_bytes", host.free},
                    {"has_file", host.has_file}});
  return json;
}

}  // namespace tessera::cli
