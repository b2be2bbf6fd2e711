// Lower case of ASCII letters, for names without regard to case.
#pragma once

#include <string>
#include <string_view>

namespace tessera::hub {

inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace tessera::hub
