#include "tessera/hub/model_name.h"

#include <algorithm>
#include <ranges>

#include "tessera/hub/ascii.h"

namespace tessera::hub {

namespace {

constexpr size_t kMaxPartBytes = 96;
constexpr size_t kMaxRevisionBytes = 200;

bool is_word_character(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_'; }

bool is_word(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_word_character); }

// "--" stands for '/' in the names of cache folders, and ".." is a folder.
bool is_repository_part(std::string_view part) {
  return is_word(part) && part.size() <= kMaxPartBytes && part.find("--") == std::string_view::npos &&
         part.find("..") == std::string_view::npos && part.front() != '-' && part.front() != '.' && part.back() != '.';
}

bool is_revision(std::string_view text) {
  if (text.empty() || text.size() > kMaxRevisionBytes) return false;
  for (const auto part : std::views::split(text, '/')) {
    const std::string_view word(part.begin(), part.end());
    if (!is_word(word) || word == "." || word == "..") return false;
  }
  return true;
}

// Splits "a:b" at the first ':'. The second part is empty without one.
struct TwoParts {
  std::string_view before, after;
  bool has_after;
};

TwoParts split_at(std::string_view text, char sign) {
  const size_t at = text.find(sign);
  if (at == std::string_view::npos) return {text, {}, false};
  return {text.substr(0, at), text.substr(at + 1), true};
}

}  // namespace

Result<ModelName> parse_model_name(std::string_view text) {
  const TwoParts revision = split_at(text, '@');
  const TwoParts tag = split_at(revision.before, ':');
  const TwoParts parts = split_at(tag.before, '/');
  if (!is_repository_part(parts.before) || !is_repository_part(parts.after))
    return fail(ErrorCode::invalid_argument, "'{}' is not the name of a model: want user/repo[:TAG][@REVISION]", text);
  if (tag.has_after && !is_word(tag.after))
    return fail(ErrorCode::invalid_argument, "'{}': '{}' is not a tag, such as Q4_K_M", text, tag.after);
  if (revision.has_after && !is_revision(revision.after))
    return fail(ErrorCode::invalid_argument, "'{}': '{}' is not a revision", text, revision.after);
  return ModelName{
      .repository = std::string(tag.before), .tag = std::string(tag.after), .revision = std::string(revision.after)};
}

std::string to_string(const ModelName& name) {
  std::string text = name.repository;
  if (!name.tag.empty()) text += ":" + name.tag;
  if (!name.revision.empty()) text += "@" + name.revision;
  return text;
}

std::string revision_or_main(const ModelName& name) { return name.revision.empty() ? "main" : name.revision; }

bool is_commit(std::string_view revision) { return is_hex(revision, 40); }

bool is_hex(std::string_view text, size_t n) {
  return text.size() == n &&
         std::ranges::all_of(text, [](char c) { return hex_value(c).has_value() && lower_case(c) == c; });
}

}  // namespace tessera::hub
