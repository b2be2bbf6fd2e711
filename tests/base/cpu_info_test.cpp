#include "tessera/base/cpu_info.h"

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A tree of small files that stands for "/".
class FakeRoot {
 public:
  explicit FakeRoot(const std::string& name) : root_(testing::temporary_dir() / name) { fs::remove_all(root_); }

  FakeRoot& add(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  std::string path() const { return root_.string(); }

 private:
  fs::path root_;
};

CpuMask cpus(std::string_view list) { return CpuMask::from_list(list).value(); }

std::set<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(CpuInfo, FeaturesAreThoseThatTheKernelReports) {
  const std::string cpuinfo = testing::read_all("/proc/cpuinfo");
  const size_t flags = cpuinfo.find("\nflags");
  if (flags == std::string::npos) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  const std::set<std::string> reported = words(cpuinfo.substr(flags, cpuinfo.find('\n', flags + 1) - flags));
  const std::set<std::string> detected = words(to_string(cpu_features()));
  for (const char* name : {"ssse3",      "sse4_1",   "sse4_2",      "popcnt",      "avx",      "avx2",     "fma",
                           "f16c",       "bmi1",     "bmi2",        "avx512f",     "avx512bw", "avx512dq", "avx512vl",
                           "avx512vbmi", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"})
    EXPECT_EQ(detected.contains(name), reported.contains(name)) << name;
}

TEST(CpuInfo, FeaturesPrintTheirNames) {
  EXPECT_EQ(to_string(CpuFeatures{}), "");
  EXPECT_EQ(to_string(CpuFeatures{.avx2 = true, .amx_bf16 = true}), "avx2 amx_bf16");
}

TEST(CpuInfo, BrandIsThatOfTheKernel) {
  const std::string brand = cpu_brand();
  EXPECT_FALSE(brand.empty());
  if (brand != "unknown") {
    EXPECT_NE(testing::read_all("/proc/cpuinfo").find(brand), std::string::npos) << brand;
  }
}

TEST(CpuInfo, HyperthreadsOfACoreCountOnce) {
  FakeRoot root("smt");
  for (const int cpu : {0, 1, 2, 3})
    root.add("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
             cpu % 2 == 0 ? "0,2\n" : "1,3\n");
  EXPECT_EQ(n_physical_cores(cpus("0-3"), root.path()), 2);
  EXPECT_EQ(n_physical_cores(cpus("2"), root.path()), 1);
  EXPECT_EQ(n_physical_cores(cpus("2-3"), root.path()), 2);
  EXPECT_EQ(n_physical_cores(cpus("0,2"), root.path()), 1);
}

TEST(CpuInfo, CpusWithoutTopologyCountAsCores) {
  FakeRoot root("no_topology");
  root.add("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "garbage");
  root.add("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "7");
  EXPECT_EQ(n_physical_cores(cpus("0-2"), root.path()), 3);
}

TEST(CpuInfo, ThreadCountIsAtLeastOneAndAtMostTheUsableCpus) {
  EXPECT_GE(default_thread_count(), 1);
  EXPECT_LE(default_thread_count(), thread_affinity().count());
}

TEST(CpuInfo, QuotaBoundsTheThreadCount) {
  FakeRoot root("small_quota");
  root.add("proc/self/cgroup", "0::/\n")
      .add("proc/self/mountinfo", "31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n")
      .add("cg/cpu.max", "50000 100000\n");
  EXPECT_EQ(default_thread_count(root.path()), 1);
}

TEST(CpuInfo, ReadsCacheSizes) {
  FakeRoot root("caches");
  const char* const levels[][3] = {
      {"1", "Data", "48K"}, {"1", "Instruction", "32K"}, {"2", "Unified", "2048K"}, {"3", "Unified", "1G"}};
  for (size_t i = 0; i < std::size(levels); ++i) {
    const std::string dir = "sys/devices/system/cpu/cpu5/cache/index" + std::to_string(i);
    root.add(dir + "/level", levels[i][0]).add(dir + "/type", levels[i][1]).add(dir + "/size", levels[i][2]);
  }
  const CacheSizes sizes = cache_sizes(5, root.path());
  EXPECT_EQ(sizes.l1d_bytes, 48u << 10);
  EXPECT_EQ(sizes.l2_bytes, 2u << 20);
  EXPECT_EQ(sizes.l3_bytes, 1u << 30);
}

TEST(CpuInfo, UnknownCachesAreZero) {
  FakeRoot root("odd_caches");
  root.add("sys/devices/system/cpu/cpu0/cache/index0/level", "1")
      .add("sys/devices/system/cpu/cpu0/cache/index0/size", "99999999999999999999K")
      .add("sys/devices/system/cpu/cpu0/cache/index1/level", "2")
      .add("sys/devices/system/cpu/cpu0/cache/index1/size", "12 bananas");
  const CacheSizes sizes = cache_sizes(0, root.path());
  EXPECT_EQ(sizes.l1d_bytes, 0u);
  EXPECT_EQ(sizes.l2_bytes, 0u);
  EXPECT_EQ(cache_sizes(1, root.path()).l3_bytes, 0u);
}

TEST(CpuInfo, MemoryIsThatOfTheMachine) {
  FakeRoot root("memory");
  root.add("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         200 kB\nMemAvailable:    600 kB\n");
  const MemoryInfo memory = memory_info(root.path());
  EXPECT_EQ(memory.total_bytes, 1000u << 10);
  EXPECT_EQ(memory.available_bytes, 600u << 10);
}

TEST(CpuInfo, MemoryIsBoundedByTheCgroup) {
  FakeRoot root("small_memory");
  root.add("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n")
      .add("proc/self/cgroup", "0::/\n")
      .add("proc/self/mountinfo", "31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n")
      .add("cg/memory.max", "102400\n")
      .add("cg/memory.current", "90000\n")
      .add("cg/memory.stat", "anon 80000\ninactive_file 10000\nactive_file 1\n");
  const MemoryInfo memory = memory_info(root.path());
  EXPECT_EQ(memory.total_bytes, 102400u);
  EXPECT_EQ(memory.available_bytes, 102400u - 80000u);
}

TEST(CpuInfo, ThisMachineHasMemory) {
  const MemoryInfo memory = memory_info();
  EXPECT_GT(memory.available_bytes, 0u);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
}

}  // namespace
}  // namespace tessera
