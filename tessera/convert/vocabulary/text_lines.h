// Lines of text files, and numbers in them.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tessera/base/result.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

/// Calls read(line) for all lines without their ends, and not for an empty last one. Its errors get the path and the
/// number of the line.
template <class Read>
Result<> for_each_line(std::string_view text, const std::string& path, const Read& read) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (auto done = read(line); !done) return forward_error(done, fmt::format("{}: line {}", path, number));
  }
  return {};
}

/// A whole text as a number. Error: format.
inline Result<int64_t> parse_decimal(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size())
    return fail(ErrorCode::format, "{}: want a number", text::quote_text(text));
  return value;
}

}  // namespace tessera::convert
