#include "tessera/convert/source/mapped_pages.h"

#include <algorithm>

#include "tessera/base/checked.h"

namespace tessera::convert {

namespace {

// A read of a page maps others around it: at most all that one entry of a page directory has.
constexpr uint64_t kFaultWindow = 2 << 20;

}  // namespace

// Windows are aligned in memory, and files begin at any page.
void forget_bytes(const MappedFile& map, uint64_t offset, uint64_t n) {
  const uint64_t start = reinterpret_cast<uintptr_t>(map.bytes().data()), end = start + map.bytes().size();
  const uint64_t first = std::max((start + offset) / kFaultWindow * kFaultWindow, start);
  const uint64_t last = std::min(round_up(start + offset + n, kFaultWindow), end);
  if (first < last) map.discard(first - start, last - first);
}

}  // namespace tessera::convert
