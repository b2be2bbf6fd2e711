#include "tessera/convert/model_card.h"

#include <algorithm>
#include <optional>

namespace tessera::convert {

namespace {

constexpr std::string_view kFrontMark = "---", kCardSpaces = " \t\r";
constexpr size_t kMaxValues = 1000;  // of a card; more are left out

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kCardSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kCardSpaces) - first + 1);
}

std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// Without quotes, or without a comment. Nothing for texts of several lines, null, and members of members.
std::optional<std::string> scalar_of(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  if (text[0] == '"' || text[0] == '\'') {
    const size_t end = text.find(text[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    return std::string(text.substr(1, end - 1));
  }
  text = trimmed(text.substr(0, text.find(" #")));
  constexpr std::string_view kNotPlain = "|>{&*!#";
  const bool is_pair = text.ends_with(':') || text.find(": ") != std::string_view::npos;
  if (text.empty() || text == "null" || text == "~" || kNotPlain.find(text[0]) != std::string_view::npos || is_pair)
    return std::nullopt;
  return std::string(text);
}

void add_list(std::string_view text, std::vector<std::string>& values) {
  text = text.substr(0, text.find(']'));
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    if (auto value = scalar_of(item)) values.push_back(std::move(*value));
  }
}

// Reads a line of the outermost level that begins a member, or an item of the member before.
void add_line(std::string_view line, std::vector<CardField>& fields) {
  constexpr std::string_view kItem = "- ";
  const std::string_view text = trimmed(line);
  if (text.starts_with(kItem)) {
    if (fields.empty()) return;
    if (auto value = scalar_of(text.substr(kItem.size()))) fields.back().values.push_back(std::move(*value));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.empty() || kCardSpaces.find(line[0]) != std::string_view::npos) return;
  fields.push_back({.name = std::string(trimmed(line.substr(0, colon)))});
  const std::string_view rest = trimmed(line.substr(colon + 1));
  if (rest.starts_with('[')) return add_list(rest.substr(1), fields.back().values);
  if (auto value = scalar_of(rest)) fields.back().values.push_back(std::move(*value));
}

}  // namespace

std::vector<CardField> read_model_card(std::string_view card) {
  std::vector<CardField> fields;
  if (trimmed(take_line(card)) != kFrontMark) return {};
  size_t n_lines = 0;
  while (!card.empty() && n_lines++ < kMaxValues) {
    const std::string_view line = take_line(card);
    if (trimmed(line) == kFrontMark) {
      std::erase_if(fields, [](const CardField& field) { return field.values.empty(); });
      return fields;
    }
    add_line(line, fields);
  }
  return {};
}

}  // namespace tessera::convert
