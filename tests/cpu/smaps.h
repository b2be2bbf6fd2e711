// Access to /proc/self/smaps: properties of a memory mapping of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <sstream>
#include <string>
#include <string_view>

namespace tessera::testing {

/// The line of /proc/self/smaps that begins with `key`, of the mapping with this address; "" if there is none.
inline std::string mapping_line(const std::byte* address, std::string_view key) {
  std::ifstream maps("/proc/self/smaps");
  bool is_mine = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-')
      is_mine = begin <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end;
    if (is_mine && line.starts_with(key)) return line;
  }
  return "";
}

}  // namespace tessera::testing
