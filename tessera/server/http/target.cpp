#include "tessera/server/http/target.h"

#include <utility>

namespace tessera::server {
namespace {

int hex_digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Cuts the text before the next separator off.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, Plus plus) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus == Plus::space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (text.size() - i < 3) return std::nullopt;
      const int high = hex_digit_value(text[i + 1]), low = hex_digit_value(text[i + 2]);
      if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::optional<Target> parse_target(std::string_view text) {
  Target target;
  auto path = percent_decode(take_until(text, '?'));
  if (!path) return std::nullopt;
  target.path = std::move(*path);
  while (!text.empty()) {
    std::string_view pair = take_until(text, '&');
    if (pair.empty()) continue;
    if (target.query.size() == kMaxQueryValues) return std::nullopt;
    auto name = percent_decode(take_until(pair, '='), Plus::space);
    auto value = percent_decode(pair, Plus::space);
    if (!name || !value) return std::nullopt;
    target.query.push_back({std::move(*name), std::move(*value)});
  }
  return target;
}

}  // namespace tessera::server
