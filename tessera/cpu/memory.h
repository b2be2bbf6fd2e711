// Zeroed memory from the operating system, in several kinds of pages, or from the program that uses the engine. The
// CPU's buffers use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/backend/host_allocator.h"
#include "tessera/base/result.h"

namespace tessera::cpu {

enum class Pages : uint8_t {
  plain,  // default pages; large allocations request transparent large pages
  huge,   // explicit large pages from the reserved pool, all allocated at once and kept; else an error
  numa,   // as plain, interleaved over all NUMA nodes
  hbm,    // high-bandwidth memory through memkind
};

/// Returns a summary of the memory available now ("pages of 2 MiB: 64 of 64 free"). Errors: unsupported, out_of_memory
/// (none is available).
Result<std::string> availability(Pages pages);

class HostMemory {
 public:
  /// Errors: out_of_memory; unsupported (the machine has no memory of this kind), with the reason.
  static Result<HostMemory> allocate(size_t bytes, Pages pages = Pages::plain);
  /// From an allocator, which must outlive the memory. Errors: out_of_memory; invalid_argument (the
  /// address is no multiple of `alignment`).
  static Result<HostMemory> allocate(const HostAllocator& allocator, size_t bytes, size_t alignment, BufferUsage usage);
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory();

  std::byte* data() const { return data_; }
  /// Sets the contents to zero. Pages are returned to the system, except explicit large pages, high-bandwidth memory,
  /// and memory of an allocator.
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
  const HostAllocator* allocator_ = nullptr;  // null: the system
  BufferUsage usage_ = BufferUsage::any;
};

}  // namespace tessera::cpu
