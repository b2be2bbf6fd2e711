// Handling of untrusted UTF-8: classification of the next bytes, conversion of any bytes to valid text, and text for
// messages. Called by the tokenizers, the detokenizers and code that prints unchecked bytes. No function here fails.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8State {
  valid,       // n_bytes form one code point
  invalid,     // n_bytes cannot start a code point, whatever follows
  incomplete,  // the text ends inside a possible code point
};

struct Utf8Step {
  Utf8State state;
  size_t n_bytes;  // 1 to 4
};

/// Classifies the start of text, which is not empty. Overlong forms, surrogates and values above U+10FFFF are invalid.
/// An invalid step spans the longest prefix of a code point (Unicode 15, section 3.9, U+FFFD practice).
Utf8Step next_utf8(std::string_view text);

bool is_valid_utf8(std::string_view text);

/// The number of bytes at the end of the text that begin an incomplete code point: 0 to 3.
size_t n_incomplete_bytes(std::string_view text);

/// Returns the text with each invalid step, and an incomplete one at the end, replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

/// Returns at most max_bytes of the text in double quotes, for messages; a longer text ends in "...". Control
/// characters and bytes that are not UTF-8 become \xHH.
std::string quote_text(std::string_view text, size_t max_bytes = 40);

}  // namespace tessera::text
