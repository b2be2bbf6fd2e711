#include "tessera/base/cgroup.h"

#include <cmath>
#include <fstream>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using Files = std::vector<std::pair<std::string, std::string>>;

CgroupLimits limits_in(const std::string& name, const Files& files) {
  const fs::path root = testing::temporary_dir() / name;
  fs::remove_all(root);
  for (const auto& [path, text] : files) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  return cgroup_limits(root.string());
}

const char* const kMountV2 = "31 23 0:28 / /cg rw,relatime shared:4 - cgroup2 cgroup2 rw\n";

TEST(Cgroup, NothingReadableIsNoLimit) {
  const CgroupLimits limits = limits_in("nothing", {});
  EXPECT_TRUE(std::isinf(limits.n_cpus));
  EXPECT_EQ(limits.memory_bytes, UINT64_MAX);
  EXPECT_EQ(limits.memory_free_bytes, UINT64_MAX);
}

TEST(Cgroup, MaxIsNoLimit) {
  const CgroupLimits limits = limits_in("max", {{"proc/self/cgroup", "0::/\n"},
                                                {"proc/self/mountinfo", kMountV2},
                                                {"cg/cpu.max", "max 100000\n"},
                                                {"cg/memory.max", "max\n"}});
  EXPECT_TRUE(std::isinf(limits.n_cpus));
  EXPECT_EQ(limits.memory_bytes, UINT64_MAX);
}

TEST(Cgroup, TightestLimitOnTheWayUpBinds) {
  const CgroupLimits limits = limits_in("nested", {{"proc/self/cgroup", "0::/a/b\n"},
                                                   {"proc/self/mountinfo", kMountV2},
                                                   {"cg/a/b/cpu.max", "400000 100000\n"},
                                                   {"cg/a/cpu.max", "150000 100000\n"},
                                                   {"cg/a/b/memory.max", "1000\n"},
                                                   {"cg/a/b/memory.current", "100\n"},
                                                   {"cg/a/memory.max", "5000\n"},
                                                   {"cg/a/memory.current", "4500\n"}});
  EXPECT_EQ(limits.n_cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, 1000u);
  EXPECT_EQ(limits.memory_free_bytes, 500u);
}

TEST(Cgroup, VersionOneHasAMountPerController) {
  const CgroupLimits limits =
      limits_in("v1", {{"proc/self/cgroup", "5:memory:/m\n3:cpu,cpuacct:/c\n0::/\n"},
                       {"proc/self/mountinfo",
                        "30 25 0:26 / /cg/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
                        "31 25 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n"
                        "32 25 0:28 / /cg/unified rw - cgroup2 cgroup2 rw\n"},
                       {"cg/cpu/c/cpu.cfs_quota_us", "300000\n"},
                       {"cg/cpu/c/cpu.cfs_period_us", "100000\n"},
                       {"cg/cpu/cpu.cfs_quota_us", "-1\n"},
                       {"cg/memory/m/memory.limit_in_bytes", "4096\n"},
                       {"cg/memory/m/memory.usage_in_bytes", "3000\n"},
                       {"cg/memory/m/memory.stat", "inactive_file 7\ntotal_inactive_file 1000\n"}});
  EXPECT_EQ(limits.n_cpus, 3.0);
  EXPECT_EQ(limits.memory_bytes, 4096u);
  EXPECT_EQ(limits.memory_free_bytes, 2096u);
}

TEST(Cgroup, ContainerSeesItsGroupAsTheMountsRoot) {
  const Files files = {{"proc/self/cgroup", "0::/docker/abc\n"},
                       {"proc/self/mountinfo", "31 23 0:28 /docker/abc /cg ro - cgroup2 cgroup2 rw\n"},
                       {"cg/cpu.max", "200000 100000\n"}};
  EXPECT_EQ(limits_in("container", files).n_cpus, 2.0);
}

TEST(Cgroup, GroupOutsideTheMountFallsBackToTheMount) {
  const Files files = {{"proc/self/cgroup", "0::/../other\n"},
                       {"proc/self/mountinfo", "31 23 0:28 /docker/abc /cg ro - cgroup2 cgroup2 rw\n"},
                       {"cg/cpu.max", "200000 100000\n"}};
  EXPECT_EQ(limits_in("outside", files).n_cpus, 2.0);
}

TEST(Cgroup, UseBeyondTheLimitLeavesNothing) {
  const CgroupLimits limits = limits_in("over", {{"proc/self/cgroup", "0::/\n"},
                                                 {"proc/self/mountinfo", kMountV2},
                                                 {"cg/memory.max", "1000\n"},
                                                 {"cg/memory.current", "1500\n"},
                                                 {"cg/memory.stat", "inactive_file 99999\n"}});
  EXPECT_EQ(limits.memory_free_bytes, 1000u);
  const CgroupLimits full = limits_in("full_group", {{"proc/self/cgroup", "0::/\n"},
                                                     {"proc/self/mountinfo", kMountV2},
                                                     {"cg/memory.max", "1000\n"},
                                                     {"cg/memory.current", "1500\n"}});
  EXPECT_EQ(full.memory_free_bytes, 0u);
}

TEST(Cgroup, MalformedFilesAreNoLimit) {
  const CgroupLimits limits = limits_in("malformed", {{"proc/self/cgroup", "junk\n0:\n:::\n0::nosuchslash\n"},
                                                      {"proc/self/mountinfo", std::string("x - y\n\n - \n") + kMountV2},
                                                      {"cg/cpu.max", "100000 0\n"},
                                                      {"cg/memory.max", "-5\n"}});
  EXPECT_TRUE(std::isinf(limits.n_cpus));
  EXPECT_EQ(limits.memory_bytes, UINT64_MAX);
}

}  // namespace
}  // namespace tessera
