// Characters of ASCII, whatever the locale.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::hub {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lower_case(c);
  return lower;
}

/// The value of a hexadecimal digit.
constexpr std::optional<int> hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = lower_case(c);
  if (lower >= 'a' && lower <= 'f') return lower - 'a' + 10;
  return std::nullopt;
}

}  // namespace tessera::hub
