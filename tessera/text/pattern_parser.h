// Parses the patterns that models publish for their pre-tokenizers. The result is a program for an ordered matcher
// (leftmost, first alternative). SplitPattern compiles the program to a table.
//
// Supported syntax:
//   code points, including . as itself; \r \n \t \x{HHHH} and escaped punctuation
//   \s \S \d, \p{L} \p{Lu} \p{Han}, [classes] with ranges, ^ and &&[class]
//   (?:groups), (?i:groups), plain groups and |
//   the repeats ? * + {n} {m,n}, and possessive ones (equivalent in these patterns)
//   at the end of an alternative: $, or (?!x) and (?=x) with a single class
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/code_point_set.h"

namespace tessera::text {

struct PatternStep {
  enum class Kind : uint8_t {
    set,       // if the next code point is in sets[a], consumes it and continues with the next step
    fork,      // continues with steps a and b, a first
    look,      // matches if there is a next code point and it is in sets[a]; consumes nothing
    look_not,  // matches if there is no next code point or it is not in sets[a]
    match,
  };
  Kind kind;
  uint32_t a = 0;
  uint32_t b = 0;
};

struct PatternProgram {
  std::vector<PatternStep> steps;  // the program starts at step 0
  std::vector<CodePointSet> sets;
};

/// Errors: invalid_argument (unsupported syntax, or nested too deep; with its position), limit (too many steps).
Result<PatternProgram> parse_pattern(std::string_view pattern);

}  // namespace tessera::text
