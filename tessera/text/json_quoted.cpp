#include "tessera/text/json_quoted.h"

#include <fmt/format.h>

#include "tessera/text/utf8.h"

namespace tessera::text {

std::string json_quoted(std::string_view text) {
  constexpr std::string_view kShort = "\bb\ff\nn\rr\tt\"\"\\\\";  // a character, then the letter that stands for it
  std::string out = "\"";
  for (const char c : to_valid_utf8(text)) {
    size_t i = 0;
    while (i < kShort.size() && kShort[i] != c) i += 2;
    if (i < kShort.size())
      out.append("\\").append(1, kShort[i + 1]);
    else if (static_cast<unsigned char>(c) < 0x20)
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out += '"';
}

}  // namespace tessera::text
