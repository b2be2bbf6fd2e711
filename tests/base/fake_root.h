// A directory tree of small files that replaces "/", with the contents of /sys and /proc of another machine.
#pragma once

#include <fstream>
#include <string>

#include "tessera/base/cpu_mask.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// The CPUs of a list like "0-3,8".
inline CpuMask cpus(std::string_view list) { return CpuMask::from_list(list).value(); }

class FakeRoot {
 public:
  explicit FakeRoot(const std::string& name) : root_(temporary_dir() / name) { std::filesystem::remove_all(root_); }

  FakeRoot& add(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  FakeRoot& add_cpu(int cpu, const std::string& file, const std::string& text) {
    return add("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + file, text);
  }
  std::string path() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

}  // namespace tessera::testing
