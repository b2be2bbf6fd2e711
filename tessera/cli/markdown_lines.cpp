#include "tessera/cli/markdown_lines.h"

#include <algorithm>
#include <charconv>

namespace tessera::cli {

namespace {

constexpr size_t kNoPlace = std::string_view::npos;

std::string_view trim_line(std::string_view line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  return line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
}

size_t n_leading(std::string_view text, char c) { return std::min(text.find_first_not_of(c), text.size()); }

bool is_line_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

size_t n_indent(std::string_view line) { return n_leading(line, ' '); }

bool is_blank_line(std::string_view line) { return n_indent(line) == line.size(); }

bool is_rule_line(std::string_view line) {
  const std::string_view text = trim_line(line);
  if (text.empty() || (text[0] != '*' && text[0] != '-' && text[0] != '_')) return false;
  return std::ranges::count(text, text[0]) >= 3 &&
         std::ranges::all_of(text, [&](char c) { return c == ' ' || c == text[0]; });
}

HeadingMark read_heading(std::string_view line) {
  const size_t n = n_leading(line, '#');
  if (n == 0 || n > 6 || (n < line.size() && line[n] != ' ')) return {};
  return {static_cast<int>(n), n + n_indent(line.substr(n))};
}

std::string_view without_closing_marks(std::string_view text) {
  text = trim_line(text);
  const size_t end = text.find_last_not_of('#');
  if (end == kNoPlace) return "";
  return end + 1 < text.size() && text[end] == ' ' ? trim_line(text.substr(0, end)) : text;
}

int underline_level(std::string_view line) {
  const std::string_view text = trim_line(line);
  if (text.empty() || (text[0] != '=' && text[0] != '-') || text.find_first_not_of(text[0]) != kNoPlace) return 0;
  return text[0] == '=' ? 1 : 2;
}

FenceMark read_fence(std::string_view line) {
  const size_t indent = n_indent(line);
  const std::string_view text = line.substr(indent);
  if (text.empty() || (text[0] != '`' && text[0] != '~')) return {};
  const size_t n = n_leading(text, text[0]);
  const std::string_view info = trim_line(text.substr(n));
  if (n < 3 || (text[0] == '`' && info.find('`') != kNoPlace)) return {};
  return {text[0], n, indent, std::string(info.substr(0, info.find(' '))), std::string(text)};
}

bool closes_fence(std::string_view line, const FenceMark& fence) {
  if (n_indent(line) > 3 + fence.n_indent) return false;
  const std::string_view text = trim_line(line);
  return text.size() >= fence.n_marks && text.find_first_not_of(fence.mark) == kNoPlace;
}

ItemMark read_item(std::string_view line) {
  if (line.empty()) return {};
  ItemMark item;
  size_t at = 0;
  if (is_line_digit(line[0])) {
    while (at < line.size() && is_line_digit(line[at])) ++at;
    if (at > 9 || at == line.size() || (line[at] != '.' && line[at] != ')')) return {};
    std::from_chars(line.data(), line.data() + at, item.number);
  } else if (line[0] != '-' && line[0] != '*' && line[0] != '+') {
    return {};
  }
  item.n_mark = at + 1;
  const size_t n_blanks = n_indent(line.substr(at + 1));
  if (n_blanks == 0 && at + 1 < line.size()) return {};
  item.mark = line[at];
  item.is_empty = at + 1 + n_blanks == line.size();
  // More than four blanks belong to indented code, and none of an empty item count.
  item.n_bytes = at + 1 + (item.is_empty ? std::min<size_t>(n_blanks, 1) : n_blanks > 4 ? 1 : n_blanks);
  return item;
}

std::string_view formula_end(std::string_view line) {
  const std::string_view text = trim_line(line);
  const std::string_view end = text.starts_with("$$") ? "$$" : text.starts_with("\\[") ? "\\]" : "";
  const bool is_whole_line = !end.empty() && text.find(end, 2) != kNoPlace && !text.ends_with(end);
  return is_whole_line ? "" : end;
}

bool may_be_block_mark(std::string_view line) {
  const std::string_view text = trim_line(line);
  return text.size() <= 8 && text.find_first_not_of("#`~*-+>=_|:$") == kNoPlace;
}

}  // namespace tessera::cli
