// Page-aligned zeroed memory from the system, in pages of a kind: the CPU's buffers are made of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/result.h"

namespace tessera::cpu {

enum class Pages : uint8_t {
  plain,  // the system's; where it is large, large ones are wished for (transparent large pages)
  huge,   // explicit large pages, of those that are reserved: they are had now and for good, or not at all
  numa,   // as plain, spread over all memory nodes in turn
  hbm,    // high-bandwidth memory, by memkind
};

/// What there is of such memory now ("pages of 2 MiB: 64 of 64 free"). Errors: unsupported, out_of_memory (none).
Result<std::string> availability(Pages pages);

class HostMemory {
 public:
  /// Errors: out_of_memory; unsupported (no memory of this kind here), with the reason.
  static Result<HostMemory> allocate(size_t bytes, Pages pages = Pages::plain);
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory();

  std::byte* data() const { return data_; }
  /// Gives the pages back (explicit large pages and high-bandwidth memory stay): contents become zero.
  Result<> reset();

 private:
  HostMemory(Pages pages, std::byte* mapping, size_t mapped_bytes, std::byte* data, size_t bytes)
      : pages_(pages), mapping_(mapping), mapped_bytes_(mapped_bytes), data_(data), bytes_(bytes) {}
  static Result<HostMemory> map(size_t bytes, Pages pages);
  static Result<HostMemory> map_huge(size_t bytes);
  static Result<HostMemory> take_hbm(size_t bytes);

  Pages pages_;
  std::byte* mapping_;
  size_t mapped_bytes_;
  std::byte* data_;
  size_t bytes_;
};

}  // namespace tessera::cpu
