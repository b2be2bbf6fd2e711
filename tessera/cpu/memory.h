// Page-aligned zeroed memory from the system, in large pages where it is large.
#pragma once

#include <cstddef>
#include <memory>

#include "tessera/base/result.h"

namespace tessera::cpu {

class HostMemory {
 public:
  /// Errors: out_of_memory.
  static Result<HostMemory> allocate(size_t bytes);
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory();

  std::byte* data() const { return data_; }
  /// Gives the pages back: contents become zero.
  Result<> reset();

 private:
  HostMemory(std::byte* mapping, size_t mapped_bytes, std::byte* data, size_t bytes)
      : mapping_(mapping), mapped_bytes_(mapped_bytes), data_(data), bytes_(bytes) {}
  std::byte* mapping_;
  size_t mapped_bytes_;
  std::byte* data_;
  size_t bytes_;
};

}  // namespace tessera::cpu
