// The server's process as the kernel sees it: memory, threads and open files. Scenarios sample it to find leaks.
#pragma once

#include <cstdint>
#include <optional>

namespace tessera::load {

struct ProcessState {
  int64_t rss_kb = 0;
  int64_t n_threads = 0;
  int64_t n_fds = 0;
};

/// Reads /proc/PID. Nothing when the process is gone, is another user's, or pid is 0.
std::optional<ProcessState> read_process(int64_t pid);

}  // namespace tessera::load
