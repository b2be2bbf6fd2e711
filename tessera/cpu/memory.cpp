#include "tessera/cpu/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "tessera/base/checked.h"

namespace tessera::cpu {

namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

Result<HostMemory> HostMemory::allocate(size_t bytes) {
  if (bytes == 0) return HostMemory(nullptr, 0, nullptr, 0);
  // A large block starts on a large page, so that all of it can be backed by them.
  const size_t slack = bytes >= kHugePage ? kHugePage : 0;
  const auto total = checked_add(bytes, slack);
  void* mapping =
      total ? ::mmap(nullptr, *total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  if (mapping == MAP_FAILED) return fail(ErrorCode::out_of_memory, "the system refuses {} bytes of memory", bytes);
  auto* data = static_cast<std::byte*>(mapping);
  if (slack != 0) {
    data += (kHugePage - reinterpret_cast<uintptr_t>(mapping) % kHugePage) % kHugePage;
    ::madvise(data, bytes, MADV_HUGEPAGE);  // a wish: smaller pages work too
  }
  return HostMemory(static_cast<std::byte*>(mapping), *total, data, bytes);
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      data_(other.data_),
      bytes_(other.bytes_) {}

HostMemory::~HostMemory() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

Result<> HostMemory::reset() {
  if (bytes_ != 0 && ::madvise(data_, bytes_, MADV_DONTNEED) != 0)
    return fail(ErrorCode::io, "the system refuses to take {} bytes of memory back", bytes_);
  return {};
}

}  // namespace tessera::cpu
