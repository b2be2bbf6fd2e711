// A pre-tokenizer's pattern as a table: one lookup per code point, so a match takes linear time and constant memory
// whatever the text is. (std::regex recurses per code point, and 26 thousand letters overflow its stack.)
//
// The table is the subset construction over ordered lists of steps (Cox 2007, "Regular Expression Matching: the
// Virtual Machine Approach"; lists are cut after a match, which gives the first alternative its precedence). Code
// points are first mapped to the few classes that the pattern can tell apart. A transition says whether the match may
// end before the code point that it reads: that is how one look-ahead code point is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/pattern_parser.h"

namespace tessera::text {

class SplitPattern {
 public:
  /// Errors: those of parse_pattern(); limit for a pattern of more than 64 sets, 255 classes or 32767 states.
  static Result<SplitPattern> compile(std::string_view pattern);

  /// The bytes of the match that starts at text[0], 0 for none. Empty matches count as none.
  size_t match(std::string_view text) const;

  /// False where no match starts: with this code point first.
  bool may_start(std::string_view text) const;

 private:
  Result<> build_classes(const PatternProgram& program);
  Result<> build_states(const PatternProgram& program);
  uint8_t class_of(uint32_t code_point) const {
    return classes_[size_t{blocks_[code_point >> 8]} * 256 + (code_point & 255)];
  }

  std::vector<uint16_t> blocks_;  // by code point / 256: which 256 entries of classes_; 0 holds the first
  std::vector<uint8_t> classes_;
  std::vector<uint64_t> signatures_;  // per class: the sets that it lies in, a bit each
  std::vector<uint16_t> next_;        // [state][class, then the end of the text]: state, and kAccept
};

}  // namespace tessera::text
