#include "tessera/cli/markdown_link.h"

#include <algorithm>

namespace tessera::cli {

namespace {

constexpr size_t kMostLinkBytes = 4096;
constexpr size_t kMostBrackets = 32;

bool is_link_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size() && text[at] == ' ') ++at;
  return at;
}

// The end of an address without `<>`: a blank, or the bracket that closes more than the address opened.
size_t end_of_address(std::string_view text, size_t at) {
  size_t n_open = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && at + 1 < text.size() && is_markdown_punctuation(text[at + 1])) {
      ++at;
      continue;
    }
    if (c == '(' && ++n_open > kMostBrackets) return std::string_view::npos;
    if ((c == ')' && n_open-- == 0) || static_cast<uint8_t>(c) <= ' ') return at;
  }
  return std::string_view::npos;
}

size_t end_of_quoted(std::string_view text, size_t at, char quote) {
  while (at < text.size() && text[at] != quote) at += text[at] == '\\' ? 2 : 1;
  return at < text.size() ? at : std::string_view::npos;
}

// The place behind a title at text[at], or `at` if there is none, or npos.
size_t skip_title(std::string_view text, size_t at) {
  if (at == text.size() || (text[at] != '"' && text[at] != '\'' && text[at] != '(')) return at;
  const size_t end = end_of_quoted(text, at + 1, text[at] == '(' ? ')' : text[at]);
  return end == std::string_view::npos ? end : end + 1;
}

std::string without_escapes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size() && is_markdown_punctuation(text[i + 1]);
    out += text[is_escape ? ++i : i];
  }
  return out;
}

}  // namespace

bool is_markdown_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

LinkTarget read_link_target(std::string_view text) {
  constexpr size_t npos = std::string_view::npos;
  text = text.substr(0, std::min(kMostLinkBytes, text.find('\n')));
  if (text.empty() || text[0] != '(') return {};
  size_t begin = skip_blanks(text, 1);
  size_t end = npos, at = npos;
  if (begin < text.size() && text[begin] == '<') {
    end = end_of_quoted(text, ++begin, '>');
    at = end == npos ? npos : end + 1;
  } else {
    end = at = end_of_address(text, begin);
  }
  if (at == npos) return {};
  const size_t behind = skip_blanks(text, at);
  at = behind > at ? skip_title(text, behind) : behind;
  if (at == npos) return {};
  at = skip_blanks(text, at);
  if (at >= text.size() || text[at] != ')') return {};
  return {at + 1, without_escapes(text.substr(begin, end - begin))};
}

AngleText read_angle_text(std::string_view text) {
  constexpr size_t npos = std::string_view::npos;
  if (text.size() < 2) return {text.empty() ? AngleKind::none : AngleKind::open, 0};
  if (!is_link_letter(text[1]) && text[1] != '/' && text[1] != '!' && text[1] != '?') return {};
  const size_t end = text.substr(0, kMostLinkBytes).find_first_of("<>\n", 1);
  if (end == npos) return {text.size() < kMostLinkBytes ? AngleKind::open : AngleKind::none, 0};
  if (text[end] != '>') return {};
  const std::string_view inner = text.substr(1, end - 1);
  const size_t colon = inner.find(':');
  const size_t at_sign = inner.find('@');
  const bool is_word = inner.find(' ') == npos && is_link_letter(inner[0]);
  const bool has_scheme =
      colon != npos && colon >= 2 && colon <= 32 && std::ranges::all_of(inner.substr(0, colon), [](char c) {
        return is_link_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
      });
  const bool is_mail = at_sign != npos && at_sign > 0 && inner.find_first_of("=\"'/") == npos;
  return {is_word && (has_scheme || is_mail) ? AngleKind::address : AngleKind::tag, end + 1};
}

}  // namespace tessera::cli
