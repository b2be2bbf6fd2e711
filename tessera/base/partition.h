// Division of work as a pure function of (items, parts, index), so that results do not depend on the executing thread.
#pragma once

#include <cstdint>

namespace tessera {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

/// Part i of n_parts nearly equal contiguous parts of [0, n_items).
constexpr Range partition(int64_t n_items, int64_t n_parts, int64_t i) {
  const int64_t whole = n_items / n_parts, rest = n_items % n_parts;
  const int64_t begin = whole * i + (i < rest ? i : rest);
  return {begin, begin + whole + (i < rest ? 1 : 0)};
}

}  // namespace tessera
