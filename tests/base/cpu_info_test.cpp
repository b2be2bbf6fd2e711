#include "tessera/base/cpu_info.h"

#include <iterator>
#include <set>
#include <sstream>

#include "tessera/base/thread_pool.h"
#include "tests/base/fake_root.h"

namespace tessera {
namespace {

using testing::cpus;
using testing::FakeRoot;

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

TEST(CpuInfo, TileCodeNeedsAvx512AndTilesOfBytes) {
  const CpuFeatures avx512{.popcnt = true,
                           .avx2 = true,
                           .fma = true,
                           .f16c = true,
                           .bmi1 = true,
                           .bmi2 = true,
                           .avx512f = true,
                           .avx512bw = true,
                           .avx512dq = true,
                           .avx512vl = true,
                           .avx512_vnni = true};
  ASSERT_TRUE(runs_avx512_code(avx512));
  EXPECT_FALSE(runs_amx_code(avx512));
  CpuFeatures amx = avx512;
  amx.amx_tile = amx.amx_int8 = true;
  EXPECT_TRUE(runs_amx_code(amx));
  CpuFeatures floats_only = amx, no_vnni = amx;
  floats_only.amx_int8 = false;
  no_vnni.avx512_vnni = false;
  EXPECT_FALSE(runs_amx_code(floats_only));
  EXPECT_FALSE(runs_amx_code(no_vnni));
}

TEST(CpuInfo, OnlyProcessorsWithTilesPermitThem) {
  if (permit_tile_registers()) {
    EXPECT_TRUE(cpu_features().amx_tile);
  }
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
    root.add_cpu(cpu, "topology/thread_siblings_list", cpu % 2 == 0 ? "0,2\n" : "1,3\n");
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
  EXPECT_EQ(default_thread_count(cpus("0-7"), root.path()), 1);
  root.add("cg/cpu.max", "150000 100000\n");
  EXPECT_EQ(default_thread_count(cpus("0-7"), root.path()), 1);  // a second thread would wait for half of each period
  root.add("cg/cpu.max", "350000 100000\n");
  EXPECT_EQ(default_thread_count(cpus("0-7"), root.path()), 3);
  EXPECT_EQ(default_thread_count(cpus("0-1"), root.path()), 2);
}

TEST(CpuInfo, ThreadCountIsThatOfTheCoresInTheMask) {
  FakeRoot root("two_sockets");
  for (int cpu = 0; cpu < 16; ++cpu) {  // 2 sockets of 4 cores with 2 hyperthreads: siblings are 8 apart
    const int first = cpu % 8;
    root.add_cpu(cpu, "topology/thread_siblings_list", std::to_string(first) + "," + std::to_string(first + 8) + "\n");
  }
  EXPECT_EQ(default_thread_count(cpus("0-15"), root.path()), 8);
  EXPECT_EQ(default_thread_count(cpus("0-3,8-11"), root.path()), 4);
  EXPECT_EQ(default_thread_count(cpus("0,1,8"), root.path()), 2);
}

TEST(CpuInfo, OfflineCpusGetNoThread) {
  FakeRoot root("offline");
  root.add("sys/devices/system/cpu/online", "0-2,5\n");
  EXPECT_EQ(default_thread_count(cpus("0-7"), root.path()), 4);
  root.add("sys/devices/system/cpu/online", "two\n");
  EXPECT_EQ(default_thread_count(cpus("0-7"), root.path()), 8);
}

TEST(CpuInfo, EfficiencyCoresGetNoThread) {
  FakeRoot root("hybrid");
  // 4 performance cores with 2 hyperthreads each, and 8 efficiency cores, which would count by their clock alone.
  root.add("sys/devices/cpu_core/cpus", "0-7\n").add("sys/devices/cpu_atom/cpus", "8-15\n");
  for (int cpu = 0; cpu < 16; ++cpu) {
    const int first = cpu / 2 * 2;
    root.add_cpu(cpu, "topology/thread_siblings_list",
                 cpu < 8 ? std::to_string(first) + "-" + std::to_string(first + 1) : std::to_string(cpu));
    root.add_cpu(cpu, "cpufreq/cpuinfo_max_freq", cpu < 8 ? "5500000\n" : "4300000\n");
  }
  EXPECT_EQ(default_thread_count(cpus("0-15"), root.path()), 4);
  EXPECT_EQ(default_thread_count(cpus("6-15"), root.path()), 1);
  EXPECT_EQ(default_thread_count(cpus("8-15"), root.path()), 8);  // if there are no other cores
}

FakeRoot with_speeds(const std::string& name, const std::string& file, const std::vector<int>& speeds) {
  FakeRoot root(name);
  for (size_t cpu = 0; cpu < speeds.size(); ++cpu)
    root.add_cpu(static_cast<int>(cpu), file, std::to_string(speeds[cpu]) + "\n");
  return root;
}

TEST(CpuInfo, LittleCoresJoinOnlyWhereTheyWinAQuarter) {
  const auto count = [](const std::vector<int>& speeds) {
    const FakeRoot root = with_speeds("little", "cpu_capacity", speeds);
    CpuMask all;
    for (size_t cpu = 0; cpu < speeds.size(); ++cpu) all.add(static_cast<int>(cpu));
    return default_thread_count(all, root.path());
  };
  EXPECT_EQ(count({1024, 870, 870, 870, 330, 330, 330, 330}), 4);             // 4 x 870 beats 8 x 330
  EXPECT_EQ(count({530, 530, 530, 530, 1024, 1024, 1024, 1024}), 4);          // 8 x 530 is 4 % more
  EXPECT_EQ(count({1024, 1024, 660, 660, 660, 660}), 6);                      // 6 x 660 is 93 % more
  EXPECT_EQ(count({1024, 1024, 600, 600, 600, 600, 600, 600, 100, 100}), 8);  // cores of 100 never count
  EXPECT_EQ(count({1024, 700, 700, 700, 400, 400}), 4);                       // 6 x 400 is less
  EXPECT_EQ(count({1024, 1024, 800}), 3);
  EXPECT_EQ(count({1024, 1000, 980, 950, 900, 860, 800, 769}), 8);  // near equals
  EXPECT_EQ(count({1024, 1024, 0, 1024}), 4);                       // garbage: all are equal
}

TEST(CpuInfo, ClockTellsWhereCapacityIsUnknown) {
  FakeRoot root = with_speeds("clock", "cpufreq/cpuinfo_max_freq", {2000000, 2000000, 500000, 500000});
  EXPECT_EQ(default_thread_count(cpus("0-3"), root.path()), 2);
  root.add_cpu(3, "cpufreq/cpuinfo_max_freq", "9G");
  EXPECT_EQ(default_thread_count(cpus("0-3"), root.path()), 4);
}

TEST(CpuInfo, ThreadCountIsOneThatAPoolCanHave) {
  const FakeRoot root("many");
  EXPECT_EQ(default_thread_count(cpus("0-4095"), root.path()), ThreadPool::kMaxThreads);
  EXPECT_EQ(default_thread_count(CpuMask{}, root.path()), 1);
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
