// Sets of logical CPUs: as users write them (hex masks, ranges), as /sys lists them, and as the kernel
// schedules by them. Called by cpu_info, thread_pool and the command line.
#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera {

class CpuMask {
 public:
  static constexpr int kMaxCpus = 4096;

  CpuMask() = default;

  /// "F", "0xF": bit i is CPU i. Errors: no digits, a character that is not hex, a CPU beyond kMaxCpus, no
  /// CPU set.
  static Result<CpuMask> from_hex(std::string_view text);

  /// "0-3", "0-3,8", "5": the form of /sys and taskset. "-3" starts at 0, "4-" runs to the last CPU there can
  /// be. Errors: empty, not a number, a CPU beyond kMaxCpus, an end before its start.
  static Result<CpuMask> from_list(std::string_view text);

  void add(int cpu) { bits_.set(static_cast<size_t>(cpu)); }  // 0 <= cpu < kMaxCpus
  bool contains(int cpu) const { return cpu >= 0 && cpu < kMaxCpus && bits_[static_cast<size_t>(cpu)]; }
  int count() const { return static_cast<int>(bits_.count()); }
  bool empty() const { return bits_.none(); }

  /// The CPUs in ascending order.
  std::vector<int> cpus() const;

  friend CpuMask operator&(CpuMask a, const CpuMask& b) {
    a.bits_ &= b.bits_;
    return a;
  }
  bool operator==(const CpuMask&) const = default;

 private:
  std::bitset<kMaxCpus> bits_;
};

/// The mask as from_list() reads it: "0-3,8"; "none" when empty.
std::string to_string(const CpuMask& mask);

/// The CPUs that the calling thread may run on. At least one.
CpuMask thread_affinity();

/// Restricts the calling thread to these CPUs. Errors: none of them is usable, or the system refuses.
Result<> set_thread_affinity(const CpuMask& mask);

}  // namespace tessera
