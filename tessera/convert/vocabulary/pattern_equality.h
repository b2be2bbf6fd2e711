// Whether two patterns of pre-tokenizers mean the same, however they are written: '[sS]|'[tT] is (?i:'s|'t).
#pragma once

#include <string_view>

namespace tessera::convert {

/// True if the patterns are equal texts, or if both are in the syntax of text/pattern_parser.h and match the same part
/// of every text. U+017F is not compared: it folds to s where case is ignored, which patterns with spelled-out cases
/// leave out. A pattern that is too large to compare equals only its own text.
bool same_pattern(std::string_view a, std::string_view b);

}  // namespace tessera::convert
