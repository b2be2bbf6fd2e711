// UTF-8 as it comes from outside: what the next bytes are, valid text from any bytes, and text for messages.
// Called by the tokenizers, the detokenizers and whoever prints bytes that nobody checked. Never fails.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8State {
  valid,       // n_bytes make one code point
  invalid,     // n_bytes cannot start a code point, whatever follows
  incomplete,  // the text ends inside what may become a code point
};

struct Utf8Step {
  Utf8State state;
  size_t n_bytes;  // 1 to 4
};

/// What starts at text[0]; text is not empty. Overlong forms, surrogates and values above U+10FFFF are
/// invalid; an invalid step spans the longest prefix of a code point (Unicode 15, section 3.9, U+FFFD
/// practice).
Utf8Step next_utf8(std::string_view text);

bool is_valid_utf8(std::string_view text);

/// The text with each invalid step, and an incomplete one at the end, replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

/// The text in double quotes for a message: control characters and bytes that are not UTF-8 as \xHH, and
/// at most max_bytes of it, then "...".
std::string quote_text(std::string_view text, size_t max_bytes = 40);

}  // namespace tessera::text
