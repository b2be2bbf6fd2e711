// Properties and case of characters as Python defines them, for the template language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::text::jinja {

/// True for Python's str.isspace(): Unicode white space and the separators U+001C to U+001F.
bool is_space(uint32_t code_point);

/// Number of bytes of white space at the start, or at the end, of a valid UTF-8 text.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

/// True for Python's str.isprintable(): repr() shows the character as it is.
bool is_printable(uint32_t code_point);

/// Number of code points of a valid UTF-8 text.
size_t count_code_points(std::string_view text);
/// Byte at which code point n of a valid UTF-8 text begins; the size of the text for n = their number.
size_t code_point_offset(std::string_view text, size_t n);
/// Size of the last code point of a valid UTF-8 text, which is not empty.
size_t last_code_point_bytes(std::string_view text);

bool is_upper(uint32_t code_point);
bool is_lower(uint32_t code_point);
bool is_letter(uint32_t code_point);
bool is_decimal_digit(uint32_t code_point);

/// True if a text has a character of the wanted case and none of the other: is_upper and is_lower.
bool has_only_case(std::string_view text, bool (*is_wanted)(uint32_t), bool (*is_other)(uint32_t));

// Case of whole texts, with all special mappings: "ß" becomes "SS", and a final "Σ" becomes "ς".
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// Title case of the first character and lower case of all others.
std::string capitalize(std::string_view text);
/// Title case of each first letter of a run of letters.
std::string to_title(std::string_view text);
/// Upper case of lower-case letters and lower case of upper-case letters.
std::string swap_case(std::string_view text);

}  // namespace tessera::text::jinja
