// Whether two patterns of pre-tokenizers mean the same, however they are written: '[sS]|'[tT] is (?i:'s|'t).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/text/pattern_parser.h"

namespace tessera::convert {

/// A pattern that is compared with several others.
class ComparedPattern {
 public:
  explicit ComparedPattern(std::string_view pattern);

  /// True if the patterns are equal texts, or if both are in the syntax of text/pattern_parser.h and match the same
  /// part of every text. U+017F is not compared: it folds to s where case is ignored, which patterns with spelled-out
  /// cases leave out. A pattern that is too large to compare equals only its own text.
  bool same_as(std::string_view other) const;

 private:
  std::string pattern_;
  std::optional<text::PatternProgram> program_;  // nothing: compared as text alone
};

inline bool same_pattern(std::string_view a, std::string_view b) { return ComparedPattern(a).same_as(b); }

}  // namespace tessera::convert
