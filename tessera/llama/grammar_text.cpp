#include "tessera/llama/grammar_text.h"

#include "tessera/llama/objects.h"
#include "tessera/text/grammar/matcher.h"
#include "tessera/text/grammar/spelled_grammar.h"

namespace tessera::llama {
namespace {

namespace grammar = text::grammar;

constexpr std::string_view kRootRule = "root";

Result<GrammarPointer> compile_regex(std::string_view pattern) {
  auto compiled = grammar::Grammar::from_regex(pattern);
  if (!compiled) return fail(ErrorCode::format, "trigger: {}", compiled.error().message);
  return std::move(*compiled);
}

// The place of the first group that captures, at the outermost level.
std::optional<size_t> first_group(std::string_view pattern) {
  bool is_in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\')
      ++i;
    else if (c == '[' || c == ']')
      is_in_class = c == '[';
    else if (c == '(' && !is_in_class)
      return i + 1 < pattern.size() && pattern[i + 1] == '?' ? std::nullopt : std::optional(i);
    else if (c == '|' && !is_in_class)
      return std::nullopt;  // the group belongs to one of several alternatives
  }
  return std::nullopt;
}

bool is_whole_match(const GrammarPointer& of, std::string_view text) {
  grammar::Matcher matcher(of);
  return matcher.accept(text) == text.size() && matcher.is_complete();
}

// Whether the text begins with a match.
bool begins_with_match(const GrammarPointer& of, std::string_view text) {
  grammar::Matcher matcher(of);
  for (size_t n = 0;; ++n) {
    if (matcher.is_complete()) return true;
    if (n == text.size() || matcher.accept(text.substr(n, 1)) == 0) return false;
  }
}

}  // namespace

Result<GrammarPointer> compile_grammar(const llama_vocab* vocab, const char* source, const char* root) {
  TESSERA_ASSIGN(const std::string_view text, read_text(source, "grammar_str"));
  std::string rules(text);
  const std::string_view start = root == nullptr ? kRootRule : std::string_view(root);
  if (start != kRootRule) rules.append("\nroot ::= ").append(start).append("\n");
  grammar::FindToken find_token;
  if (vocab != nullptr) find_token = [&](std::string_view name) { return vocab->vocab().find(name); };
  auto compiled = grammar::Grammar::from_gbnf(rules, find_token);
  if (!compiled) return fail(ErrorCode::format, "{}", compiled.error().text());
  if (vocab == nullptr) return std::move(*compiled);
  auto spelled = grammar::spelled_by(*vocab->mask(), std::move(*compiled));
  if (!spelled) return fail(ErrorCode::unsupported, "grammar: {}", spelled.error().message);
  return std::move(*spelled);
}

Result<TriggerPattern> TriggerPattern::from_word(std::string_view word) {
  if (word.empty()) return fail(ErrorCode::invalid_argument, "trigger: an empty word");
  TriggerPattern trigger;
  trigger.word_ = word;
  return trigger;
}

Result<TriggerPattern> TriggerPattern::from_regex(std::string_view pattern) {
  TriggerPattern trigger;
  trigger.matches_whole_ = pattern.starts_with('^') && pattern.ends_with('$');
  if (trigger.matches_whole_) pattern = pattern.substr(1, pattern.size() - 2);
  const std::optional<size_t> group = first_group(pattern);
  if (group) {
    std::string before(trigger.matches_whole_ ? "" : "[\\s\\S]*");
    before += pattern.substr(0, *group);
    TESSERA_ASSIGN(trigger.before_, compile_regex(before));
  }
  TESSERA_ASSIGN(trigger.from_, compile_regex(group ? pattern.substr(*group) : pattern));
  return trigger;
}

std::optional<size_t> TriggerPattern::find(std::string_view text) const {
  if (!word_.empty()) {
    const size_t at = text.find(word_);
    return at == std::string_view::npos ? std::nullopt : std::optional(at);
  }
  if (before_ != nullptr) return find_group(text);
  for (size_t begin = 0; begin <= (matches_whole_ ? 0 : text.size()); ++begin)
    if (fits_rest(text.substr(begin))) return begin;
  return std::nullopt;
}

bool TriggerPattern::fits_rest(std::string_view rest) const {
  return matches_whole_ ? is_whole_match(from_, rest) : begins_with_match(from_, rest);
}

// One pass over the text: the part before the group may end at several places. Bytes that are no text begin it anew.
std::optional<size_t> TriggerPattern::find_group(std::string_view text) const {
  grammar::Matcher before(before_);
  for (size_t at = 0;; ++at) {
    if (before.is_complete() && fits_rest(text.substr(at))) return at;
    if (at == text.size()) return std::nullopt;
    if (before.accept(text.substr(at, 1)) != 0) continue;
    if (matches_whole_) return std::nullopt;
    before.restart();
  }
}

}  // namespace tessera::llama
