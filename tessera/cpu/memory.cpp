#include "tessera/cpu/memory.h"

#include <fmt/format.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/base/counted.h"
#include "tessera/base/file.h"
#include "tessera/base/memory_nodes.h"
#include "tessera/cpu/hbm.h"

namespace tessera::cpu {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr uint64_t kMaxFileBytes = 4096;

struct HugePageSize {
  size_t bytes;
  int map_flag;
  std::string_view name;
};
// Largest first.
constexpr HugePageSize kHugePageSizes[] = {{size_t{1} << 30, MAP_HUGE_1GB, "1 GiB"},
                                           {kHugePage, MAP_HUGE_2MB, "2 MiB"}};

struct HugePagePool {
  uint64_t n_pages = 0;
  uint64_t n_free = 0;  // neither in use nor reserved for a mapping
};

uint64_t read_count(const std::string& path) {
  const std::string text = read_file(path, kMaxFileBytes).value_or("");
  uint64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

HugePagePool pool_of(const HugePageSize& size) {
  const std::string dir = fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB", size.bytes >> 10);
  const uint64_t n_free = read_count(dir + "/free_hugepages"), n_promised = read_count(dir + "/resv_hugepages");
  return {read_count(dir + "/nr_hugepages"), n_free - std::min(n_free, n_promised)};
}

constexpr std::string_view kHowToReserve = "sysctl vm.nr_hugepages=N, or hugepages=N of the kernel's command line";

std::string transparent_pages() {
  const std::string text = read_file("/sys/kernel/mm/transparent_hugepage/enabled", kMaxFileBytes).value_or("");
  const size_t begin = text.find('['), end = text.find(']');  // "always [madvise] never"
  if (begin == std::string::npos || end == std::string::npos) return "no transparent large pages";
  return "transparent large pages: " + text.substr(begin + 1, end - begin - 1);
}

Result<std::string> huge_availability() {
  std::string text;
  for (const HugePageSize& size : kHugePageSizes)
    if (const HugePagePool pool = pool_of(size); pool.n_pages != 0)
      text +=
          fmt::format("{}pages of {}: {} of {} free", text.empty() ? "" : ", ", size.name, pool.n_free, pool.n_pages);
  if (text.empty())
    return fail(ErrorCode::out_of_memory, "no large pages are reserved on this machine ({})", kHowToReserve);
  return text;
}

}  // namespace

Result<std::string> availability(Pages pages) {
  switch (pages) {
    case Pages::plain:
      return transparent_pages();
    case Pages::huge:
      return huge_availability();
    case Pages::numa: {
      TESSERA_ASSIGN(const std::vector<int> nodes, memory_nodes());
      return counted(nodes.size(), "memory node");
    }
    case Pages::hbm:
      TESSERA_TRY(require_hbm());
      return std::string();
  }
  return std::string();
}

Result<HostMemory> HostMemory::allocate(size_t bytes, Pages pages) {
  if (bytes == 0) return HostMemory(pages, nullptr, 0, nullptr, 0);
  switch (pages) {
    case Pages::huge:
      return map_huge(bytes);
    case Pages::hbm:
      return take_hbm(bytes);
    case Pages::plain:
    case Pages::numa:
      break;
  }
  return map(bytes, pages);
}

Result<HostMemory> HostMemory::allocate(const HostAllocator& allocator, size_t bytes, size_t alignment,
                                        BufferUsage usage) {
  if (bytes == 0) return HostMemory(Pages::plain, nullptr, 0, nullptr, 0);
  auto* data = static_cast<std::byte*>(allocator.allocate(bytes, alignment, usage));
  if (data == nullptr) return fail(ErrorCode::out_of_memory, "the program's allocator refuses {} bytes", bytes);
  HostMemory memory(Pages::plain, data, bytes, data, bytes);
  memory.allocator_ = &allocator;
  memory.usage_ = usage;
  if (reinterpret_cast<uintptr_t>(data) % alignment != 0)
    return fail(ErrorCode::invalid_argument, "the program's allocator returned an address that is no multiple of {}",
                alignment);
  std::memset(data, 0, bytes);
  return memory;
}

Result<HostMemory> HostMemory::map(size_t bytes, Pages pages) {
  // A large allocation is aligned to large pages, so that they can back all of it.
  const size_t slack = bytes >= kHugePage ? kHugePage : 0;
  const auto total = checked_add(bytes, slack);
  void* mapping =
      total ? ::mmap(nullptr, *total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  if (mapping == MAP_FAILED) return fail(ErrorCode::out_of_memory, "the system refuses {} bytes of memory", bytes);
  auto* data = static_cast<std::byte*>(mapping);
  if (slack != 0) data += (kHugePage - reinterpret_cast<uintptr_t>(mapping) % kHugePage) % kHugePage;
  HostMemory memory(pages, static_cast<std::byte*>(mapping), *total, data, bytes);
  if (slack != 0) ::madvise(data, bytes, MADV_HUGEPAGE);  // best-effort: smaller pages work too
  if (pages == Pages::numa) TESSERA_TRY(interleave_pages({data, bytes}));
  return memory;
}

// Uses the largest page size that wastes little of its last page and of which enough pages are free. All pages are
// populated now: a page missing later would kill the process.
Result<HostMemory> HostMemory::map_huge(size_t bytes) {
  for (const HugePageSize& size : kHugePageSizes) {
    const auto total = checked_round_up(bytes, size.bytes);
    if (!total || (size.bytes != kHugePage && *total - bytes > bytes / 8)) continue;
    void* mapping = ::mmap(nullptr, *total, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size.map_flag, -1, 0);
    if (mapping == MAP_FAILED) continue;
    auto* data = static_cast<std::byte*>(mapping);
    HostMemory memory(Pages::huge, data, *total, data, bytes);
    const bool has_pages = ::madvise(mapping, *total, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;  // EINVAL: < 5.14
    if (has_pages) return memory;
  }
  const HugePagePool pool = pool_of(kHugePageSizes[1]);
  return fail(ErrorCode::out_of_memory,
              "{} bytes take {} reserved pages of 2 MiB, {} of {} are free (reserve more: {}; plain memory asks for "
              "transparent large pages without)",
              bytes, div_ceil(bytes, kHugePage), pool.n_free, pool.n_pages, kHowToReserve);
}

Result<HostMemory> HostMemory::take_hbm(size_t bytes) {
  TESSERA_ASSIGN(std::byte * data, allocate_hbm(bytes));
  return HostMemory(Pages::hbm, data, bytes, data, bytes);
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : pages_(other.pages_),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      data_(other.data_),
      bytes_(other.bytes_),
      allocator_(other.allocator_),
      usage_(other.usage_) {}

HostMemory::~HostMemory() {
  if (mapping_ == nullptr) return;
  if (allocator_ != nullptr)
    allocator_->free(mapping_, mapped_bytes_, usage_);
  else if (pages_ == Pages::hbm)
    free_hbm(mapping_);
  else
    ::munmap(mapping_, mapped_bytes_);
}

Result<> HostMemory::reset() {
  if (bytes_ == 0) return {};
  // A large page returned to the system might not be available again.
  if (pages_ == Pages::huge || pages_ == Pages::hbm || allocator_ != nullptr) {
    std::memset(data_, 0, bytes_);
    return {};
  }
  if (::madvise(data_, bytes_, MADV_DONTNEED) != 0)
    return fail(ErrorCode::io, "the system refuses to take {} bytes of memory back", bytes_);
  return {};
}

}  // namespace tessera::cpu
