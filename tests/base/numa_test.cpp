#include "tessera/base/numa.h"

#include "tests/base/fake_root.h"

namespace tessera {
namespace {

using testing::cpus;
using testing::FakeRoot;

std::vector<std::string> texts(const std::vector<CpuMask>& masks) {
  std::vector<std::string> texts;
  for (const CpuMask& mask : masks) texts.push_back(to_string(mask));
  return texts;
}

using Texts = std::vector<std::string>;

// Two sockets with hyperthreads, and a memory node without CPUs between them.
FakeRoot two_sockets(const std::string& name) {
  FakeRoot root(name);
  root.add("sys/devices/system/node/online", "0-2\n")
      .add("sys/devices/system/node/node0/cpulist", "0-3,8-11\n")
      .add("sys/devices/system/node/node1/cpulist", "\n")
      .add("sys/devices/system/node/node2/cpulist", "4-7,12-15\n");
  return root;
}

TEST(Numa, NodesAreThoseWithUsableCpus) {
  const FakeRoot root = two_sockets("numa_nodes");
  EXPECT_EQ(texts(numa_nodes(cpus("0-15"), root.path())), (Texts{"0-3,8-11", "4-7,12-15"}));
  EXPECT_EQ(texts(numa_nodes(cpus("2-4"), root.path())), (Texts{"2-3", "4"}));
  EXPECT_EQ(texts(numa_nodes(cpus("12-14"), root.path())), (Texts{"12-14"}));
}

TEST(Numa, UnknownTopologyIsOneNode) {
  FakeRoot root("numa_unknown");
  EXPECT_EQ(texts(numa_nodes(cpus("0-3"), root.path())), (Texts{"0-3"}));
  root.add("sys/devices/system/node/online", "all of them");
  EXPECT_EQ(texts(numa_nodes(cpus("0-3"), root.path())), (Texts{"0-3"}));
  root.add("sys/devices/system/node/online", "0-99999999\n");
  EXPECT_EQ(texts(numa_nodes(cpus("0-3"), root.path())), (Texts{"0-3"}));
  root.add("sys/devices/system/node/online", "0-1\n")
      .add("sys/devices/system/node/node0/cpulist", "x\n")
      .add("sys/devices/system/node/node1/cpulist", std::string(1 << 20, '1'));
  EXPECT_EQ(texts(numa_nodes(cpus("0-3"), root.path())), (Texts{"0-3"}));
}

TEST(Numa, OneNodeChangesNothing) {
  FakeRoot root("numa_one");
  root.add("sys/devices/system/node/online", "0\n").add("sys/devices/system/node/node0/cpulist", "0-4095\n");
  for (const NumaPolicy policy : {NumaPolicy::none, NumaPolicy::distribute, NumaPolicy::isolate, NumaPolicy::numactl})
    EXPECT_EQ(texts(numa_placement(policy, cpus("0-3"), 3, root.path())), (Texts{"0-3", "0-3", "0-3"}));
}

TEST(Numa, DistributeSpreadsThreadsEvenly) {
  const FakeRoot root = two_sockets("numa_distribute");
  const std::string a = "0-3,8-11", b = "4-7,12-15";
  const auto place = [&](int n) { return texts(numa_placement(NumaPolicy::distribute, cpus("0-15"), n, root.path())); };
  EXPECT_EQ(place(1), (Texts{a}));
  EXPECT_EQ(place(2), (Texts{a, b}));
  EXPECT_EQ(place(4), (Texts{a, a, b, b}));
  EXPECT_EQ(place(5), (Texts{a, a, a, b, b}));
}

TEST(Numa, IsolateIsTheNodeOfTheCallingThread) {
  const CpuMask before = thread_affinity();
  FakeRoot root("numa_isolate");
  // Every usable CPU is a node.
  root.add("sys/devices/system/node/online", "0-" + std::to_string(before.count() - 1));
  const std::vector<int> usable = before.cpus();
  for (size_t i = 0; i < usable.size(); ++i)
    root.add("sys/devices/system/node/node" + std::to_string(i) + "/cpulist", std::to_string(usable[i]));
  for (const int cpu : {usable.front(), usable.back()}) {
    CpuMask one;
    one.add(cpu);
    ASSERT_OK(set_thread_affinity(one));
    EXPECT_EQ(numa_cpus_here(before, root.path()), one);
    EXPECT_EQ(numa_placement(NumaPolicy::isolate, before, 2, root.path()), (std::vector<CpuMask>{one, one}));
  }
  ASSERT_OK(set_thread_affinity(before));
}

TEST(Numa, IsolateWithoutAUsableCpuHereTakesTheFirstNode) {
  const FakeRoot root = two_sockets("numa_elsewhere");
  const CpuMask far = cpus("4000-4001");
  EXPECT_EQ(numa_cpus_here(far, root.path()), far);
}

TEST(Numa, NumactlKeepsTheCpusThatWereGiven) {
  const FakeRoot root = two_sockets("numa_numactl");
  EXPECT_EQ(texts(numa_placement(NumaPolicy::numactl, cpus("3-4"), 2, root.path())), (Texts{"3-4", "3-4"}));
}

}  // namespace
}  // namespace tessera
