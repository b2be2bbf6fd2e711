#include "tessera/llama/trigger.h"

#include <algorithm>
#include <cctype>

namespace tessera::llama {
namespace {

namespace grammar = text::grammar;

constexpr std::string_view kAnyText = "[\\s\\S]*";

Result<std::shared_ptr<const grammar::Grammar>> compile_regex(const std::string& pattern) {
  auto compiled = grammar::Grammar::from_regex(pattern);
  if (!compiled) return fail(ErrorCode::format, "trigger: {}", compiled.error().message);
  return std::move(*compiled);
}

bool is_escaped(std::string_view pattern, size_t at) {
  size_t n = 0;
  while (n < at && pattern[at - n - 1] == '\\') ++n;
  return n % 2 == 1;
}

// The place of the first group that captures, outside of other groups and of alternatives.
std::optional<size_t> find_group(std::string_view pattern) {
  std::optional<size_t> group;
  bool is_in_class = false;
  size_t depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (is_in_class || c == '[') {
      is_in_class = c != ']';
    } else if (c == '(') {
      const bool captures = !pattern.substr(i + 1).starts_with('?');
      if (captures && depth == 0 && !group) group = i;
      ++depth;
    } else if (c == ')' && depth > 0) {
      --depth;
    } else if (c == '|' && depth == 0) {
      return std::nullopt;
    }
  }
  return group;
}

}  // namespace

Result<TriggerPattern> TriggerPattern::from_word(std::string_view word) {
  if (word.empty()) return fail(ErrorCode::invalid_argument, "trigger: an empty word");
  std::string pattern;
  for (const char c : word) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) pattern += '\\';
    pattern += c;
  }
  return from_regex(pattern);
}

Result<TriggerPattern> TriggerPattern::from_regex(std::string_view pattern) {
  TriggerPattern trigger;
  trigger.begins_anywhere_ = !pattern.starts_with('^');
  if (!trigger.begins_anywhere_) pattern.remove_prefix(1);
  trigger.ends_anywhere_ = !pattern.ends_with('$') || is_escaped(pattern, pattern.size() - 1);
  if (!trigger.ends_anywhere_) pattern.remove_suffix(1);
  const size_t group = find_group(pattern).value_or(0);
  if (group > 0) {
    std::string before(trigger.begins_anywhere_ ? kAnyText : "");
    TESSERA_ASSIGN(trigger.before_, compile_regex(before.append(pattern.substr(0, group))));
  }
  TESSERA_ASSIGN(trigger.from_, compile_regex(std::string(pattern.substr(group))));
  return trigger;
}

TriggerSearch::TriggerSearch(const TriggerPattern& pattern)
    : from_(pattern.from_),
      has_before_(pattern.before_ != nullptr),
      begins_anywhere_(pattern.begins_anywhere_),
      ends_anywhere_(pattern.ends_anywhere_) {
  if (has_before_) before_.emplace(pattern.before_);
  if (may_begin()) open_.push_back({0, from_.fork()});
}

TriggerSearch::TriggerSearch(const TriggerSearch& other)
    : from_(other.from_.fork()),
      has_before_(other.has_before_),
      begins_anywhere_(other.begins_anywhere_),
      ends_anywhere_(other.ends_anywhere_),
      n_bytes_(other.n_bytes_) {
  if (other.before_) before_.emplace(other.before_->fork());
  for (const OpenMatch& match : other.open_) open_.push_back({match.begin, match.matcher.fork()});
}

// Whether a match of the group may begin at the end of the text.
bool TriggerSearch::may_begin() const {
  if (has_before_) return before_ && before_->is_complete();
  return begins_anywhere_ || n_bytes_ == 0;
}

// A byte that is no text ends all matches. A pattern that may begin anywhere is searched for behind it.
void TriggerSearch::read_byte(std::string_view byte) {
  ++n_bytes_;
  std::erase_if(open_, [&](OpenMatch& match) { return match.matcher.accept(byte) == 0; });
  if (before_ && before_->accept(byte) == 0) {
    if (begins_anywhere_)
      before_->restart();
    else
      before_.reset();
  }
  if (may_begin() && open_.size() < kMaxOpenMatches) open_.push_back({n_bytes_, from_.fork()});
}

std::optional<size_t> TriggerSearch::first_complete() const {
  const auto found = std::ranges::find_if(open_, [](const OpenMatch& match) { return match.matcher.is_complete(); });
  return found == open_.end() ? std::nullopt : std::optional(found->begin);
}

std::optional<size_t> TriggerSearch::read(std::string_view more) {
  for (size_t i = 0; i < more.size(); ++i) {
    read_byte(more.substr(i, 1));
    if (!ends_anywhere_) continue;
    if (const auto begin = first_complete()) return begin;
  }
  return first_complete();
}

}  // namespace tessera::llama
