// Memory, threads and open files of a process (process.h).
#include "bench/serve/process.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace tessera::load {

std::optional<ProcessState> read_process(int64_t pid) {
  if (pid <= 0) return {};
  ProcessState state;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) state.rss_kb = std::atoll(line.c_str() + 6);
    if (line.starts_with("Threads:")) state.n_threads = std::atoll(line.c_str() + 8);
  }
  std::error_code error;
  std::filesystem::directory_iterator fds(fmt::format("/proc/{}/fd", pid), error), end;
  for (; !error && fds != end; fds.increment(error)) ++state.n_fds;
  if (error || state.n_threads == 0) return {};
  return state;
}

}  // namespace tessera::load
