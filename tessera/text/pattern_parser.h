// The patterns that models publish for their pre-tokenizers, as a program for an ordered (leftmost, first
// alternative) matcher. Called by SplitPattern, which turns the program into a table.
//
// Understood: code points, . is one too, \r \n \t \x{HHHH} and escaped signs, \s \S \d, \p{L} \p{Lu} \p{Han}, [classes]
// with ranges, ^ and &&[class], (?:groups), (?i:groups) and plain groups, |, the repeats ? * + {n} {m,n} (possessive
// ones too, which mean the same in these patterns), and as the last thing of an alternative (?!x), (?=x) of one class
// or $.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/code_point_set.h"

namespace tessera::text {

struct PatternStep {
  enum class Kind : uint8_t {
    set,       // the next code point is in sets[a]; go on to the next step
    fork,      // go on to steps a and b, a first
    look,      // the next code point, if there is one, is in sets[a] (then a match), nothing is consumed
    look_not,  // there is no next code point, or it is not in sets[a] (then a match)
    match,
  };
  Kind kind;
  uint32_t a = 0;
  uint32_t b = 0;
};

struct PatternProgram {
  std::vector<PatternStep> steps;  // starts at step 0
  std::vector<CodePointSet> sets;
};

/// Error: invalid_argument for what is not understood, with its place. Patterns are our own: nesting is not limited.
Result<PatternProgram> parse_pattern(std::string_view pattern);

}  // namespace tessera::text
