#include "tessera/base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/base/file.h"

namespace tessera {

namespace {

constexpr uint64_t kMaxCgroupFileBytes = 4 << 20;

std::string read_or_empty(const std::string& path) { return read_file(path, kMaxCgroupFileBytes).value_or(""); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool lists(std::string_view comma_separated, std::string_view word) {
  const auto words = split(comma_separated, ',');
  return std::ranges::find(words, word) != words.end();
}

// In these files "max", "-1" and text that is not a number mean "no limit".
std::optional<uint64_t> parse_limit(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::optional<uint64_t> read_limit(const std::string& path) { return parse_limit(read_or_empty(path)); }

// The value of "name value" in memory.stat.
uint64_t stat_value(const std::string& path, std::string_view name) {
  const std::string text = read_or_empty(path);
  for (const std::string_view line : split(text, '\n'))
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      return parse_limit(line.substr(name.size() + 1)).value_or(0);
  return 0;
}

enum class Version { v1, v2 };

// A hierarchy that governs this process: its mount point, and the process's group in it.
struct Hierarchy {
  Version version;
  std::string mount;
  std::string group;  // relative to the mount: "" or "/a/b"
};

// The group's path in /proc/self/cgroup: lines "id:controllers:path", "0::path" for version 2.
std::optional<std::string> group_path(std::string_view cgroup_file, Version version, std::string_view controller) {
  for (const std::string_view line : split(cgroup_file, '\n')) {
    const size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool matches =
        version == Version::v2 ? line.substr(0, first) == "0" && controllers.empty() : lists(controllers, controller);
    if (matches) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// A container often has its own group mounted as if it were the root. The path in /proc/self/cgroup then begins with
// the mount's root, or is outside of it. In the second case only the mount itself can be read.
std::string group_below_mount(std::string group, std::string_view mount_root) {
  if (mount_root != "/") {
    const bool inside =
        group.starts_with(mount_root) && (group.size() == mount_root.size() || group[mount_root.size()] == '/');
    group = inside ? group.substr(mount_root.size()) : "";
  }
  return group == "/" || group.find("/..") != std::string::npos ? "" : group;
}

std::vector<Hierarchy> find_hierarchies(const std::string& root, std::string_view controller) {
  const std::string cgroup_file = read_or_empty(root + "/proc/self/cgroup");
  const std::string mounts = read_or_empty(root + "/proc/self/mountinfo");
  std::vector<Hierarchy> found;
  for (const std::string_view line : split(mounts, '\n')) {
    // "id parent major:minor root mount options [tags] - type source super-options"
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto left = split(line.substr(0, dash), ' ');
    const auto right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool is_v2 = right[0] == "cgroup2";
    if (!is_v2 && !(right[0] == "cgroup" && lists(right[2], controller))) continue;
    const Version version = is_v2 ? Version::v2 : Version::v1;
    const auto group = group_path(cgroup_file, version, controller);
    if (!group) continue;
    found.push_back({version, root + std::string(left[4]), group_below_mount(*group, left[3])});
  }
  return found;
}

// Applies `narrow` to the process's group and to all groups above it, because the limit of each of them binds.
template <class Narrow>
void for_each_group(const std::string& root, std::string_view controller, Narrow narrow) {
  for (const Hierarchy& hierarchy : find_hierarchies(root, controller)) {
    std::string group = hierarchy.group;
    while (true) {
      narrow(hierarchy.version, hierarchy.mount + group);
      if (group.empty()) break;
      group.resize(std::min(group.rfind('/'), group.size() - 1));
    }
  }
}

void narrow_cpus(CgroupLimits& limits, Version version, const std::string& dir) {
  std::optional<uint64_t> quota, period;
  if (version == Version::v2) {
    const std::string text = read_or_empty(dir + "/cpu.max");
    const auto words = split(text, ' ');
    if (words.size() == 2) {
      quota = parse_limit(words[0]);
      period = parse_limit(words[1]);
    }
  } else {
    quota = read_limit(dir + "/cpu.cfs_quota_us");
    period = read_limit(dir + "/cpu.cfs_period_us");
  }
  if (!quota || period.value_or(0) == 0) return;
  limits.n_cpus = std::min(limits.n_cpus, static_cast<double>(*quota) / static_cast<double>(*period));
}

void narrow_memory(CgroupLimits& limits, Version version, const std::string& dir) {
  const bool is_v2 = version == Version::v2;
  const auto limit = read_limit(dir + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (!limit) return;
  const uint64_t used = read_limit(dir + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
  const uint64_t cache = stat_value(dir + "/memory.stat", is_v2 ? "inactive_file" : "total_inactive_file");
  const uint64_t held = used - std::min(cache, used);
  limits.memory_bytes = std::min(limits.memory_bytes, *limit);
  limits.memory_free_bytes = std::min(limits.memory_free_bytes, *limit - std::min(held, *limit));
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  for_each_group(root, "cpu", [&](Version version, const std::string& dir) { narrow_cpus(limits, version, dir); });
  for_each_group(root, "memory", [&](Version version, const std::string& dir) { narrow_memory(limits, version, dir); });
  return limits;
}

}  // namespace tessera
