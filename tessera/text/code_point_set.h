// A set of code points as sorted disjoint ranges: the meaning of a character class. Used while patterns are compiled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/text/unicode.h"

namespace tessera::text {

class CodePointSet {
 public:
  CodePointSet() = default;
  explicit CodePointSet(std::span<const CodePointRange> ranges);

  /// The code points whose category is in the mask.
  static CodePointSet of_categories(uint32_t mask);

  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet intersection(const CodePointSet& other) const;

  /// Sorted, disjoint and not adjacent: equal sets have equal ranges.
  std::span<const CodePointRange> ranges() const { return ranges_; }
  bool operator==(const CodePointSet& other) const;

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace tessera::text
