// Host memory from the program that uses the engine, in place of the system's.
#pragma once

#include <cstddef>
#include <functional>

#include "tessera/backend/buffer.h"

namespace tessera {

/// Both functions may be called from any thread, and must not throw.
struct HostAllocator {
  /// Returns at least `bytes` bytes at a multiple of `alignment`, a power of two, or null. Contents may be anything.
  std::function<void*(size_t bytes, size_t alignment, BufferUsage usage)> allocate{};  // empty: the system
  /// Takes back what allocate() returned, with the same bytes and usage.
  std::function<void(void* memory, size_t bytes, BufferUsage usage)> free{};
};

}  // namespace tessera
