#include "tessera/base/cpu_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "tessera/base/cgroup.h"
#include "tessera/base/file.h"
#include "tessera/base/index.h"
#include "tessera/base/thread_pool.h"

namespace tessera {

namespace {

constexpr uint64_t kMaxCpuFileBytes = 1 << 16;

struct FeatureName {
  std::string_view name;
  bool CpuFeatures::*flag;
};
constexpr FeatureName kFeatureNames[] = {
    {"ssse3", &CpuFeatures::ssse3},
    {"sse4_1", &CpuFeatures::sse4_1},
    {"sse4_2", &CpuFeatures::sse4_2},
    {"popcnt", &CpuFeatures::popcnt},
    {"avx", &CpuFeatures::avx},
    {"avx2", &CpuFeatures::avx2},
    {"fma", &CpuFeatures::fma},
    {"f16c", &CpuFeatures::f16c},
    {"bmi1", &CpuFeatures::bmi1},
    {"bmi2", &CpuFeatures::bmi2},
    {"avx512f", &CpuFeatures::avx512f},
    {"avx512bw", &CpuFeatures::avx512bw},
    {"avx512dq", &CpuFeatures::avx512dq},
    {"avx512vl", &CpuFeatures::avx512vl},
    {"avx512_vnni", &CpuFeatures::avx512_vnni},
    {"avx512_bf16", &CpuFeatures::avx512_bf16},
    {"avx512vbmi", &CpuFeatures::avx512vbmi},
    {"avx_vnni", &CpuFeatures::avx_vnni},
    {"amx_tile", &CpuFeatures::amx_tile},
    {"amx_int8", &CpuFeatures::amx_int8},
    {"amx_bf16", &CpuFeatures::amx_bf16},
};

#if defined(__x86_64__)
struct CpuidLeaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero if the CPU does not have the leaf.
CpuidLeaf cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  CpuidLeaf r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool bit(uint32_t word, int i) { return (word >> i & 1) != 0; }

// XCR0: the register states that the operating system saves. The instruction exists only with OSXSAVE. Its intrinsic
// would require compiling this file for CPUs that have it.
uint64_t read_xcr0() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}
#endif

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The trimmed text of a small file, or "" if it cannot be read.
std::string read_word(const std::string& path) {
  return std::string(trim(read_file(path, kMaxCpuFileBytes).value_or("")));
}

// Parses "48K", "2048K", "1M" or "512" as bytes. Returns 0 for any other text.
uint64_t parse_size(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value > UINT64_MAX >> 30) return 0;
  const std::string_view unit(end, to_size(text.data() + text.size() - end));
  if (unit.empty()) return value;
  if (unit == "K" || unit == " kB") return value << 10;
  if (unit == "M") return value << 20;
  if (unit == "G") return value << 30;
  return 0;
}

std::string cpu_dir(int cpu, const std::string& root) {
  return fmt::format("{}/sys/devices/system/cpu/cpu{}", root, cpu);
}

// The value of a "name:   123 kB" line.
uint64_t meminfo_bytes(std::string_view meminfo, std::string_view name) {
  for (size_t begin = 0; begin < meminfo.size();) {
    const size_t end = std::min(meminfo.find('\n', begin), meminfo.size());
    const std::string_view line = meminfo.substr(begin, end - begin);
    if (line.starts_with(name)) return parse_size(trim(line.substr(name.size())));
    begin = end + 1;
  }
  return 0;
}

// The CPUs of the mask that a file of /sys lists. Empty if the file cannot be read, is not a list, or lists no CPU of
// the mask.
std::optional<CpuMask> read_cpus(const std::string& path, const CpuMask& mask) {
  const auto listed = CpuMask::from_list(read_word(path));
  if (!listed) return std::nullopt;
  const CpuMask common = *listed & mask;
  return common.empty() ? std::nullopt : std::optional(common);
}

// The first CPU of each physical core.
std::vector<int> core_cpus(const CpuMask& cpus, const std::string& root) {
  std::vector<int> cores;
  for (const int cpu : cpus.cpus()) {
    const auto siblings = read_cpus(cpu_dir(cpu, root) + "/topology/thread_siblings_list", cpus);
    // Without a plausible list, the CPU counts as a separate core.
    if (!siblings || !siblings->contains(cpu) || siblings->cpus().front() == cpu) cores.push_back(cpu);
  }
  return cores;
}

// The capacity or maximum frequency of each core, from the first file that every core has; otherwise 1 for each.
std::vector<uint64_t> core_speeds(const std::vector<int>& cores, const std::string& root) {
  const auto is_plausible = [](uint64_t speed) { return speed > 0 && speed <= UINT32_MAX; };
  for (const std::string_view file : {"cpu_capacity", "cpufreq/cpuinfo_max_freq"}) {
    std::vector<uint64_t> speeds;
    for (const int cpu : cores) speeds.push_back(parse_size(read_word(fmt::format("{}/{}", cpu_dir(cpu, root), file))));
    if (std::ranges::all_of(speeds, is_plausible)) return speeds;
  }
  return std::vector<uint64_t>(cores.size(), 1);
}

// The number of cores that are worth a thread. Each thread gets an equal part of a step, so n threads are as fast as n
// times the slowest core. All cores near the fastest count. Slower cores count only if this estimate rises by a
// quarter, because their vector units are narrower than their clock and capacity suggest.
int count_fast_cores(const CpuMask& cpus, const std::string& root) {
  std::vector<uint64_t> speeds = core_speeds(core_cpus(cpus, root), root);
  std::ranges::sort(speeds, std::greater{});
  size_t n_big = 0;
  while (n_big < speeds.size() && 4 * speeds[n_big] >= 3 * speeds[0]) ++n_big;
  size_t best = n_big;
  const auto together = [&](size_t n) { return n * speeds[n - 1]; };
  for (size_t n = n_big + 1; n <= speeds.size(); ++n)
    if (together(n) > together(best) && 4 * together(n) >= 5 * together(n_big)) best = n;
  return static_cast<int>(best);
}

}  // namespace

CpuFeatures cpu_features() {
  CpuFeatures f;
#if defined(__x86_64__)
  const CpuidLeaf leaf1 = cpuid(1);
  const CpuidLeaf leaf7 = cpuid(7);
  const CpuidLeaf leaf7_1 = leaf7.eax >= 1 ? cpuid(7, 1) : CpuidLeaf{};
  const bool has_xgetbv = bit(leaf1.ecx, 27);
  const uint64_t saved = has_xgetbv ? read_xcr0() : 0;
  const bool ymm = (saved & 0x6) == 0x6;            // SSE and AVX state
  const bool zmm = ymm && (saved & 0xe0) == 0xe0;   // mask registers, upper halves, zmm16-31
  const bool tiles = (saved & 0x60000) == 0x60000;  // tile configuration and data

  f.ssse3 = bit(leaf1.ecx, 9);
  f.sse4_1 = bit(leaf1.ecx, 19);
  f.sse4_2 = bit(leaf1.ecx, 20);
  f.popcnt = bit(leaf1.ecx, 23);
  f.bmi1 = bit(leaf7.ebx, 3);
  f.bmi2 = bit(leaf7.ebx, 8);

  f.avx = ymm && bit(leaf1.ecx, 28);
  f.fma = f.avx && bit(leaf1.ecx, 12);
  f.f16c = f.avx && bit(leaf1.ecx, 29);
  f.avx2 = f.avx && bit(leaf7.ebx, 5);
  f.avx_vnni = f.avx2 && bit(leaf7_1.eax, 4);

  f.avx512f = zmm && bit(leaf7.ebx, 16);
  f.avx512dq = f.avx512f && bit(leaf7.ebx, 17);
  f.avx512bw = f.avx512f && bit(leaf7.ebx, 30);
  f.avx512vl = f.avx512f && bit(leaf7.ebx, 31);
  f.avx512vbmi = f.avx512f && bit(leaf7.ecx, 1);
  f.avx512_vnni = f.avx512f && bit(leaf7.ecx, 11);
  f.avx512_bf16 = f.avx512f && bit(leaf7_1.eax, 5);

  f.amx_tile = tiles && bit(leaf7.edx, 24);
  f.amx_bf16 = f.amx_tile && bit(leaf7.edx, 22);
  f.amx_int8 = f.amx_tile && bit(leaf7.edx, 25);
#endif
  return f;
}

bool runs_avx2_code(const CpuFeatures& features) {
  return features.avx2 && features.fma && features.f16c && features.bmi1 && features.bmi2 && features.popcnt;
}

bool runs_avxvnni_code(const CpuFeatures& features) { return runs_avx2_code(features) && features.avx_vnni; }

bool runs_avx512_code(const CpuFeatures& features) {
  return runs_avx2_code(features) && features.avx512f && features.avx512bw && features.avx512dq && features.avx512vl &&
         features.avx512_vnni;
}

bool runs_amx_code(const CpuFeatures& features) {
  return runs_avx512_code(features) && features.amx_tile && features.amx_int8;
}

bool permit_tile_registers() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::string to_string(const CpuFeatures& features) {
  std::string text;
  for (const FeatureName& row : kFeatureNames)
    if (features.*row.flag) fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : " ", row.name);
  return text;
}

std::string cpu_brand() {
#if defined(__x86_64__)
  std::array<CpuidLeaf, 3> leaves;
  for (uint32_t i = 0; i < 3; ++i) leaves[i] = cpuid(0x80000002u + i);
  std::array<char, sizeof leaves> text;
  std::memcpy(text.data(), leaves.data(), sizeof leaves);
  const std::string_view brand = std::string_view(text.data(), text.size());
  if (const auto name = trim(brand.substr(0, brand.find('\0'))); !name.empty()) return std::string(name);
#endif
  return "unknown";
}

int n_physical_cores(const CpuMask& cpus, const std::string& root) {
  return static_cast<int>(core_cpus(cpus, root).size());
}

int default_thread_count(const CpuMask& cpus, const std::string& root) {
  CpuMask usable = read_cpus(root + "/sys/devices/system/cpu/online", cpus).value_or(cpus);
  // On Intel's hybrid CPUs, only the performance cores.
  usable = read_cpus(root + "/sys/devices/cpu_core/cpus", usable).value_or(usable);
  const int n_cores = std::min(count_fast_cores(usable, root), ThreadPool::kMaxThreads);
  return std::max(1, static_cast<int>(std::min(cgroup_limits(root).n_cpus, static_cast<double>(n_cores))));
}

CacheSizes cache_sizes(int cpu, const std::string& root) {
  CacheSizes sizes;
  for (int index = 0;; ++index) {
    const std::string dir = fmt::format("{}/cache/index{}", cpu_dir(cpu, root), index);
    const std::string level = read_word(dir + "/level");
    if (level.empty()) return sizes;
    if (read_word(dir + "/type") == "Instruction") continue;
    const uint64_t bytes = parse_size(read_word(dir + "/size"));
    if (level == "1") sizes.l1d_bytes = bytes;
    if (level == "2") sizes.l2_bytes = bytes;
    if (level == "3") sizes.l3_bytes = bytes;
  }
}

MemoryInfo memory_info(const std::string& root) {
  const std::string meminfo = read_word(root + "/proc/meminfo");
  const CgroupLimits limits = cgroup_limits(root);
  return {.total_bytes = std::min(meminfo_bytes(meminfo, "MemTotal:"), limits.memory_bytes),
          .available_bytes = std::min(meminfo_bytes(meminfo, "MemAvailable:"), limits.memory_free_bytes)};
}

}  // namespace tessera
