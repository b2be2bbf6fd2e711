#include "tessera/hub/wildcard.h"

#include <cstddef>

#include "tessera/hub/ascii.h"

namespace tessera::hub {

bool matches_wildcard(std::string_view text, std::string_view pattern) {
  constexpr size_t kNone = std::string_view::npos;
  size_t at = 0, in_pattern = 0;
  size_t star = kNone, star_end = 0;  // the last '*', and the end of the text that it takes
  while (at < text.size()) {
    const char want = in_pattern < pattern.size() ? pattern[in_pattern] : '\0';
    if (want == '*') {
      star = in_pattern++;
      star_end = at;
    } else if (in_pattern < pattern.size() && (want == text[at] || (want == '?' && is_digit(text[at])))) {
      ++at;
      ++in_pattern;
    } else if (star != kNone && text[star_end] != '/') {
      at = ++star_end;
      in_pattern = star + 1;
    } else {
      return false;
    }
  }
  while (in_pattern < pattern.size() && pattern[in_pattern] == '*') ++in_pattern;
  return in_pattern == pattern.size();
}

}  // namespace tessera::hub
