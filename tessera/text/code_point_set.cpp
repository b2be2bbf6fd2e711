#include "tessera/text/code_point_set.h"

#include <algorithm>

namespace tessera::text {
namespace {

std::vector<CodePointRange> normalized(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CodePointRange> out;
  for (const CodePointRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

}  // namespace

CodePointSet::CodePointSet(std::span<const CodePointRange> ranges)
    : ranges_(normalized({ranges.begin(), ranges.end()})) {}

CodePointSet CodePointSet::of_categories(uint32_t mask) {
  std::vector<CodePointRange> ranges;
  for (const CategoryRun& run : category_runs())
    if ((mask & bit_of(run.category)) != 0) ranges.push_back({run.first, run.last});
  return CodePointSet(ranges);
}

void CodePointSet::add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  ranges_ = normalized(std::move(ranges_));
}

CodePointSet CodePointSet::complement() const {
  CodePointSet out;
  uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) out.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) out.ranges_.push_back({next, kMaxCodePoint});
  return out;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet either = complement();
  either.add(other.complement());
  return either.complement();
}

bool CodePointSet::operator==(const CodePointSet& other) const {
  return std::equal(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first && a.last == b.last; });
}

}  // namespace tessera::text
