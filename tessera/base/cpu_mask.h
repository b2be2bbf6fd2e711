// Sets of logical CPUs, with the text formats of users (hex masks, ranges) and /sys and the word format of the kernel.
// Used by cpu_info, thread_pool and the command line.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/base/result.h"

namespace tessera {

class CpuMask {
 public:
  static constexpr int kMaxCpus = 4096;

  CpuMask() = default;

  /// Parses "F" or "0xF", where bit i is CPU i. Errors: no digits, a character that is not hex, a CPU beyond kMaxCpus,
  /// no CPU set.
  static Result<CpuMask> from_hex(std::string_view text);

  /// Parses "0-3", "0-3,8" or "5", the format of /sys and taskset. "-3" starts at 0, and "4-" ends at the highest
  /// possible CPU. Errors: empty, not a number, a CPU beyond kMaxCpus, an end before its start.
  static Result<CpuMask> from_list(std::string_view text);

  void add(int cpu) { words_[to_size(cpu) / 64] |= bit(cpu); }  // 0 <= cpu < kMaxCpus
  bool contains(int cpu) const { return cpu >= 0 && cpu < kMaxCpus && (words_[to_size(cpu) / 64] & bit(cpu)) != 0; }
  int count() const;
  bool empty() const { return words_ == Words{}; }

  /// The CPUs in ascending order.
  std::vector<int> cpus() const;

  friend CpuMask operator&(CpuMask a, const CpuMask& b) {
    for (size_t i = 0; i < a.words_.size(); ++i) a.words_[i] &= b.words_[i];
    return a;
  }
  bool operator==(const CpuMask&) const = default;

 private:
  friend CpuMask thread_affinity();
  friend Result<> set_thread_affinity(const CpuMask& mask);
  using Words = std::array<uint64_t, kMaxCpus / 64>;  // the word format of the kernel

  static uint64_t bit(int cpu) { return uint64_t{1} << (cpu % 64); }

  Words words_{};
};

/// Formats the mask for from_list(), such as "0-3,8"; "none" when empty.
std::string to_string(const CpuMask& mask);

/// The CPUs on which the calling thread may run. At least one.
CpuMask thread_affinity();

/// Restricts the calling thread to these CPUs. Allocates only for an error. Errors: none of the CPUs is usable, or the
/// system refuses.
Result<> set_thread_affinity(const CpuMask& mask);

}  // namespace tessera
