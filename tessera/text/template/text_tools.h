// Pieces of texts that several filters and methods use: stripping, lines, words.
#pragma once

#include <vector>

#include "tessera/text/template/builtins.h"

namespace tessera::text::jinja {

enum class Sides : uint8_t { left = 1, right = 2, both = 3 };

/// A text without the characters of argument 0 of `bound`, or without white space, at its ends.
Result<Value> strip(Runtime& runtime, const Value& text, const Bound& bound, Sides sides);

/// The width of argument `i`, or `otherwise` without it. A negative width is 0. A width above all limits is cut, so
/// that a text of this width overflows. Errors: invalid_argument.
Result<size_t> width_of(const Bound& bound, size_t i, int64_t otherwise);

enum class LineEnds : uint8_t { dropped, kept };

/// The lines of a text, as Python's splitlines() finds them. Errors: limit.
Result<std::vector<ByteRange>> split_lines(Runtime& runtime, std::string_view text, LineEnds ends);

/// True for letters, digits and '_', the \w of Python's regular expressions.
bool continues_word(uint32_t code_point);

struct WrapOptions {
  size_t width;  // in code points, at least 1
  bool breaks_long_words;
  bool breaks_on_hyphens;
};

/// The rows of a text whose lines are broken at white space to be at most `width` long, as Python's textwrap breaks
/// them. Errors: limit.
Result<std::vector<ByteRange>> wrap_words(Runtime& runtime, std::string_view text, const WrapOptions& options);

}  // namespace tessera::text::jinja
