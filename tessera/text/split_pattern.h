// A pre-tokenizer's pattern compiled to a table. Matching does one lookup per code point, so it needs linear time and
// constant memory for any text. (std::regex recurses per code point, and 26 thousand letters overflow its stack.)
//
// The table is the subset construction over ordered lists of steps (Cox 2007, "Regular Expression Matching: the Virtual
// Machine Approach"). Lists are cut after a match, which gives the first alternative its precedence. Code points are
// first mapped to the few classes that the pattern distinguishes. A transition records whether the match may end before
// the code point that it reads. This implements one code point of look-ahead.
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
  /// Errors: as parse_pattern(); limit for a pattern of more than 64 sets, 255 classes or 32767 states.
  static Result<SplitPattern> compile(std::string_view pattern);

  /// Returns the length in bytes of the match at the start of text. 0: no match, or an empty one.
  size_t match(std::string_view text) const;

  /// False if no match can begin with the first code point of text.
  bool may_start(std::string_view text) const;

 private:
  Result<> build_classes(const PatternProgram& program);
  Result<> build_states(const PatternProgram& program);
  uint8_t class_of(uint32_t code_point) const {
    return classes_[size_t{blocks_[code_point >> 8]} * 256 + (code_point & 255)];
  }

  std::vector<uint16_t> blocks_;  // by code point / 256: index of its 256 entries in classes_; block 0 is the first
  std::vector<uint8_t> classes_;
  std::vector<uint64_t> signatures_;  // per class: the sets that contain it, as bits
  std::vector<uint16_t> next_;        // [state][class, with end of text as the last]: next state and kAccept
};

}  // namespace tessera::text
