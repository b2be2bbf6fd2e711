// The memory of this process that mapped files take.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/testing.h"

namespace tessera::testing {

/// KiB of these mapped bytes that are in the memory of this process.
inline int64_t mapped_kib(std::span<const std::byte> bytes) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = reinterpret_cast<uintptr_t>(bytes.data()) / page;
  const uint64_t last = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size() - 1) / page;
  std::vector<uint64_t> entries(last - first + 1);
  const int file = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const size_t n_bytes = entries.size() * sizeof(uint64_t);
  const ssize_t n = ::pread(file, entries.data(), n_bytes, static_cast<off_t>(first * sizeof(uint64_t)));
  ::close(file);
  EXPECT_EQ(n, static_cast<ssize_t>(n_bytes)) << "/proc/self/pagemap";
  int64_t n_present = 0;
  for (const uint64_t entry : entries) n_present += static_cast<int64_t>(entry >> 63);
  return n_present * static_cast<int64_t>(page) / 1024;
}

}  // namespace tessera::testing
