#include "tessera/base/cpu_mask.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>

namespace tessera {

namespace {

constexpr int kMaxCpus = CpuMask::kMaxCpus;

// The system call reads an array of longs. The type cpu_set_t is limited to 1024 CPUs.
static_assert(sizeof(unsigned long) == sizeof(uint64_t));
cpu_set_t* kernel_form(uint64_t* words) { return reinterpret_cast<cpu_set_t*>(words); }
const cpu_set_t* kernel_form(const uint64_t* words) { return reinterpret_cast<const cpu_set_t*>(words); }

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

Result<int> parse_cpu(std::string_view text, std::string_view list) {
  int cpu = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (text.empty() || text[0] == '-' || end != text.data() + text.size() || error == std::errc::invalid_argument)
    return fail(ErrorCode::invalid_argument, "CPU list '{}': '{}' is not a CPU number", list, text);
  if (error != std::errc{} || cpu >= kMaxCpus)
    return fail(ErrorCode::limit, "CPU list '{}': CPU {}, limit {}", list, text, kMaxCpus - 1);
  return cpu;
}

struct CpuRange {
  int first;
  int last;
};

Result<CpuRange> parse_range(std::string_view item, std::string_view list) {
  const size_t dash = item.find('-');
  if (dash == std::string_view::npos) {
    TESSERA_ASSIGN(const int cpu, parse_cpu(item, list));
    return CpuRange{cpu, cpu};
  }
  if (item.size() == 1) return fail(ErrorCode::invalid_argument, "CPU list '{}': '-' without a CPU number", list);
  CpuRange range{0, kMaxCpus - 1};
  if (dash > 0) {
    TESSERA_ASSIGN(range.first, parse_cpu(item.substr(0, dash), list));
  }
  if (dash + 1 < item.size()) {
    TESSERA_ASSIGN(range.last, parse_cpu(item.substr(dash + 1), list));
  }
  if (range.last < range.first)
    return fail(ErrorCode::invalid_argument, "CPU list '{}': {} ends before it starts", list, item);
  return range;
}

}  // namespace

Result<CpuMask> CpuMask::from_hex(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  if (digits.empty()) return fail(ErrorCode::invalid_argument, "CPU mask '{}': want hex digits", text);
  CpuMask mask;
  for (size_t i = 0; i < digits.size(); ++i) {
    const std::optional<int> digit = hex_digit(digits[digits.size() - 1 - i]);
    if (!digit)
      return fail(ErrorCode::invalid_argument, "CPU mask '{}': character {} is not a hex digit", text, text.size() - i);
    if (*digit == 0) continue;
    if (i >= kMaxCpus / 4) return fail(ErrorCode::limit, "CPU mask '{}': names a CPU beyond {}", text, kMaxCpus - 1);
    for (size_t bit = 0; bit < 4; ++bit)
      if ((*digit >> bit & 1) != 0) mask.add(static_cast<int>(4 * i + bit));
  }
  if (mask.empty()) return fail(ErrorCode::invalid_argument, "CPU mask '{}': names no CPU", text);
  return mask;
}

Result<CpuMask> CpuMask::from_list(std::string_view text) {
  CpuMask mask;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    TESSERA_ASSIGN(const CpuRange range, parse_range(text.substr(begin, end - begin), text));
    for (int cpu = range.first; cpu <= range.last; ++cpu) mask.add(cpu);
    begin = end + 1;
  }
  return mask;
}

int CpuMask::count() const {
  int n = 0;
  for (const uint64_t word : words_) n += std::popcount(word);
  return n;
}

std::vector<int> CpuMask::cpus() const {
  std::vector<int> list;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu)
    if (contains(cpu)) list.push_back(cpu);
  return list;
}

std::string to_string(const CpuMask& mask) {
  std::string text;
  for (int first = 0; first < kMaxCpus; ++first) {
    if (!mask.contains(first)) continue;
    int last = first;
    while (mask.contains(last + 1)) ++last;
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ",", first);
    if (last > first) fmt::format_to(std::back_inserter(text), "-{}", last);
    first = last;
  }
  return text.empty() ? "none" : text;
}

CpuMask thread_affinity() {
  CpuMask mask;
  if (::sched_getaffinity(0, sizeof mask.words_, kernel_form(mask.words_.data())) == 0) return mask;
  const long n_online = ::sysconf(_SC_NPROCESSORS_ONLN);
  for (int cpu = 0; cpu < std::clamp<long>(n_online, 1, kMaxCpus); ++cpu) mask.add(cpu);
  return mask;
}

Result<> set_thread_affinity(const CpuMask& mask) {
  if (::sched_setaffinity(0, sizeof mask.words_, kernel_form(mask.words_.data())) == 0) return {};
  return fail(ErrorCode::io, "cannot run on CPUs {}: {}", to_string(mask), std::generic_category().message(errno));
}

}  // namespace tessera
