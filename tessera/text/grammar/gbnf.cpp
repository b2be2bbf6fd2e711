#include "tessera/text/grammar/gbnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/grammar/ascii.h"
#include "tessera/text/grammar/syntax_tree.h"
#include "tessera/text/grammar/utf8_expression.h"
#include "tessera/text/utf8.h"

namespace tessera::text::grammar {
namespace {

using Part = SyntaxTree::Part;

constexpr size_t kMaxSourceBytes = size_t{1} << 20;
constexpr size_t kMaxRules = size_t{1} << 16;
constexpr size_t kMaxParts = size_t{1} << 20;
constexpr size_t kMaxDepth = 256;

bool is_name_byte(char c) { return is_letter(c) || is_digit(c) || c == '-'; }

// A function that finds an error notes it and returns a value that the callers pass on: false, or nothing.
class GbnfReader {
 public:
  GbnfReader(std::string_view source, const FindToken& find_token, ExpressionArena& arena)
      : source_(source), find_token_(find_token), arena_(arena) {}

  bool read() {
    if (source_.size() > kMaxSourceBytes) return fail_at(0, "more than 1 MiB");
    if (const size_t n_valid = n_valid_bytes(); n_valid < source_.size()) return fail_at(n_valid, "not UTF-8");
    while (true) {
      skip_space(true);
      if (at_end()) break;
      if (!read_rule()) return false;
    }
    const auto& rules = tree_.rules();
    if (const auto root = std::ranges::find(rules, "root", &SyntaxTree::Rule::name);
        root == rules.end() || !root->is_defined)
      return fail_at(source_.size(), "no rule \"root\"");
    for (const Use& use : uses_)
      if (!rules[use.name].is_defined)
        return fail_at(use.at, fmt::format("undefined rule \"{}\"", rules[use.name].name));
    return true;
  }

  SyntaxTree& tree() { return tree_; }
  const GrammarError& error() const { return error_; }

  /// Notes an error of a rule by its name.
  void fail_in_rule(std::string_view name, std::string message) {
    for (const auto& [rule, at] : places_)
      if (tree_.rules()[rule].name == name) fail_at(at, message);
  }

 private:
  struct Use {
    SyntaxTree::Name name;
    size_t at;
  };
  // A group, or the whole of a rule.
  struct Group {
    std::vector<Part> alternatives{}, sequence{};
    size_t at = 0;
  };

  size_t n_valid_bytes() const {
    size_t at = 0;
    while (at < source_.size()) {
      const Utf8Step step = next_utf8(source_.substr(at));
      if (step.state != Utf8State::valid) break;
      at += step.n_bytes;
    }
    return at;
  }

  bool at_end() const { return at_ >= source_.size(); }
  char peek() const { return at_end() ? '\0' : source_[at_]; }
  bool looks_at(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!looks_at(text)) return false;
    at_ += text.size();
    return true;
  }

  bool fail_at(size_t at, std::string message) {
    const std::string_view before = source_.substr(0, at);
    const size_t line_start = before.rfind('\n') + 1;  // 0 without a line break
    error_.message = std::move(message);
    error_.line = static_cast<size_t>(std::ranges::count(before, '\n')) + 1;
    const auto is_lead = [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; };
    error_.column = static_cast<size_t>(std::ranges::count_if(before.substr(line_start), is_lead)) + 1;
    return false;
  }
  bool fail_here(std::string message) { return fail_at(at_, std::move(message)); }

  void skip_space(bool skips_lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        at_ = std::min(source_.find_first_of("\r\n", at_), source_.size());
      } else if (c == ' ' || c == '\t' || (skips_lines && (c == '\r' || c == '\n'))) {
        ++at_;
      } else {
        break;
      }
    }
  }

  std::string_view take_name() {
    const size_t begin = at_;
    while (!at_end() && is_name_byte(peek())) ++at_;
    return source_.substr(begin, at_ - begin);
  }

  bool read_rule() {
    const size_t begin = at_;
    const std::string_view text = take_name();
    if (text.empty()) return fail_here("want the name of a rule");
    const SyntaxTree::Name name = tree_.name(text);
    if (tree_.rules().size() > kMaxRules) return fail_at(begin, fmt::format("more than {} rules", kMaxRules));
    skip_space(false);
    if (!take("::=")) return fail_here("want ::=");
    skip_space(true);
    const auto first_part = static_cast<Part>(tree_.n_parts());
    const auto root = read_alternatives();
    if (!root) return false;
    if (!at_end() && peek() != '\n' && peek() != '\r') return fail_here("want the end of the line");
    tree_.define(name, first_part, *root);
    places_[name] = begin;
    return true;
  }

  // Groups within groups are on a stack.
  std::optional<Part> read_alternatives() {
    std::vector<Group> groups(1);
    while (true) {
      skip_space(groups.size() > 1);
      if (take("|")) {
        close_sequence(groups.back());
        skip_space(true);
      } else if (peek() == '(' && !at_end()) {
        if (groups.size() > kMaxDepth) return refuse(fmt::format("groups nested deeper than {}", kMaxDepth));
        groups.push_back({.at = at_++});
      } else if (peek() == ')' && groups.size() > 1) {
        ++at_;
        close_sequence(groups.back());
        const Part group = alternatives_of(groups.back());
        groups.pop_back();
        if (!read_repeats(groups.back(), group)) return std::nullopt;
      } else if (starts_element()) {
        const auto element = read_element();
        if (!element || !read_repeats(groups.back(), *element)) return std::nullopt;
      } else if (starts_repeat()) {
        return refuse("nothing to repeat");
      } else {
        break;
      }
      if (tree_.n_parts() > kMaxParts) return refuse(fmt::format("more than {} elements", kMaxParts));
    }
    if (groups.size() > 1) return refuse("want )");
    close_sequence(groups.back());
    return alternatives_of(groups.back());
  }

  void close_sequence(Group& group) { group.alternatives.push_back(tree_.sequence(std::exchange(group.sequence, {}))); }
  Part alternatives_of(const Group& group) {
    return group.alternatives.size() == 1 ? group.alternatives[0] : tree_.alternatives(group.alternatives);
  }

  std::nullopt_t refuse(std::string message) {
    fail_here(std::move(message));
    return std::nullopt;
  }

  bool starts_element() const {
    const char c = peek();
    return !at_end() && (c == '"' || c == '[' || c == '.' || c == '<' || looks_at("!<") || is_name_byte(c));
  }

  bool starts_repeat() const { return !at_end() && std::string_view("*+?{").find(peek()) != std::string_view::npos; }

  std::optional<Part> read_element() {
    const char c = peek();
    if (c == '"') return read_literal();
    if (c == '[') return read_class();
    if (c == '<' || c == '!') return read_tokens();
    if (take(".")) return tree_.lexeme(utf8_of(arena_, all_code_points()));
    const size_t begin = at_;
    const SyntaxTree::Name name = tree_.name(take_name());
    uses_.push_back({name, begin});
    return tree_.rule(name);
  }

  std::optional<Part> read_literal() {
    std::string text;
    ++at_;
    while (peek() != '"' || at_end()) {
      const auto code_point = read_character();
      if (!code_point) return std::nullopt;
      append_utf8(*code_point, text);
    }
    ++at_;
    const Part part = tree_.lexeme(arena_.literal(text));
    if (text.empty()) empty_literal_ = part;
    return part;
  }

  std::optional<Part> read_class() {
    const size_t begin = at_++;
    const bool is_complement = take("^");
    std::vector<CodePointRange> ranges;
    while (peek() != ']' || at_end()) {
      const size_t range_begin = at_;
      const auto first = read_character();
      if (!first) return std::nullopt;
      auto last = first;
      if (looks_at("-") && !looks_at("-]")) {
        ++at_;
        last = read_character();
        if (!last) return std::nullopt;
      }
      if (*last < *first) {
        fail_at(range_begin, "range out of order");
        return std::nullopt;
      }
      ranges.push_back({*first, *last});
    }
    ++at_;
    if (ranges.empty()) {
      fail_at(begin, "empty character class");
      return std::nullopt;
    }
    const CodePointSet set(ranges);
    return tree_.lexeme(utf8_of(arena_, is_complement ? set.complement() : set));
  }

  // A code point or an escape.
  std::optional<uint32_t> read_character() {
    if (at_end()) return refuse("unexpected end");
    if (peek() != '\\') {
      const CodePointStep step = next_code_point(source_.substr(at_));
      at_ += step.n_bytes;
      return step.code_point;
    }
    const size_t begin = at_++;
    if (at_end()) return refuse("unexpected end");
    const char c = source_[at_++];
    constexpr std::string_view kNames = "nrt\\\"[]", kMeanings = "\n\r\t\\\"[]";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) return static_cast<uint8_t>(kMeanings[i]);
    const size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_digits == 0) {
      fail_at(begin, "unknown escape");
      return std::nullopt;
    }
    const std::string_view digits = source_.substr(at_, n_digits);
    if (digits.size() < n_digits || !std::ranges::all_of(digits, is_hex_digit))
      return refuse(fmt::format("want {} hex digits", n_digits));
    at_ += n_digits;
    uint32_t code_point = 0;
    std::from_chars(digits.begin(), digits.end(), code_point, 16);
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point <= 0xdfff)) {
      fail_at(begin, "not a code point");
      return std::nullopt;
    }
    return code_point;
  }

  // <[1234]>, <text>, and with ! before them.
  std::optional<Part> read_tokens() {
    TokenSet set = {.is_complement = take("!")};
    const size_t begin = at_++;
    if (take("[")) {
      const auto id = read_number("a token id");
      if (!id) return std::nullopt;
      if (!take("]>")) return refuse("want ]>");
      set.ids.push_back(static_cast<int32_t>(*id));
      return tree_.tokens(std::move(set));
    }
    const size_t end = source_.find_first_of(">\r\n", at_);
    if (end == std::string_view::npos || source_[end] != '>') return refuse("want >");
    at_ = end + 1;
    const std::string_view text = source_.substr(begin, at_ - begin);
    const auto id = find_token_ ? find_token_(text) : std::nullopt;
    if (!id) {
      fail_at(begin, fmt::format("no token {}", quote_text(text)));
      return std::nullopt;
    }
    set.ids.push_back(*id);
    return tree_.tokens(std::move(set));
  }

  std::optional<uint32_t> read_number(std::string_view what) {
    const size_t begin = at_;
    while (!at_end() && is_digit(peek())) ++at_;
    const std::string_view digits = source_.substr(begin, at_ - begin);
    if (digits.empty()) return refuse(fmt::format("want {}", what));
    uint32_t number = 0;
    const auto parsed = std::from_chars(digits.begin(), digits.end(), number);
    if (parsed.ec != std::errc() || number > INT32_MAX) number = INT32_MAX;
    return number;
  }

  // Appends an element with the repetitions after it.
  bool read_repeats(Group& group, Part element) {
    const bool is_empty_literal = element == empty_literal_;
    while (true) {
      skip_space(false);
      if (is_empty_literal && starts_repeat()) return fail_here("nothing to repeat");
      if (take("*")) {
        element = tree_.repeat(element, 0, kUnbounded);
      } else if (take("+")) {
        element = tree_.repeat(element, 1, kUnbounded);
      } else if (take("?")) {
        element = tree_.repeat(element, 0, 1);
      } else if (peek() == '{' && !at_end()) {
        const auto repeated = read_bounds(element);
        if (!repeated) return false;
        element = *repeated;
      } else {
        break;
      }
    }
    group.sequence.push_back(element);
    return true;
  }

  std::optional<Part> read_bounds(Part element) {
    const size_t begin = at_++;
    uint32_t min = 0, max = kUnbounded;
    skip_space(false);
    if (peek() != ',') {
      const auto number = read_number("a number");
      if (!number) return std::nullopt;
      min = max = *number;
      skip_space(false);
    }
    if (take(",")) {
      max = kUnbounded;
      skip_space(false);
      if (is_digit(peek())) {
        max = *read_number("a number");
        skip_space(false);
      }
    }
    if (!take("}")) return refuse("want }");
    if (max < min) {
      fail_at(begin, "bounds out of order");
      return std::nullopt;
    }
    if (min > kMaxRepeat || (max != kUnbounded && max > kMaxRepeat)) {
      fail_at(begin, fmt::format("more than {} repetitions", kMaxRepeat));
      return std::nullopt;
    }
    return tree_.repeat(element, min, max);
  }

  std::string_view source_;
  const FindToken& find_token_;
  ExpressionArena& arena_;
  SyntaxTree tree_;
  std::vector<Use> uses_;
  std::map<SyntaxTree::Name, size_t> places_;  // of definitions
  GrammarError error_;
  size_t at_ = 0;
  std::optional<Part> empty_literal_;  // the last one
};

}  // namespace

std::expected<void, GrammarError> read_gbnf(std::string_view source, const FindToken& find_token,
                                            ExpressionArena& arena, Rules& rules) {
  GbnfReader reader(source, find_token, arena);
  if (!reader.read()) return std::unexpected(reader.error());
  SyntaxTree& tree = reader.tree();
  tree.build(tree.name("root"), arena, rules);
  const auto done = rules.finish(arena);
  if (!done) {
    reader.fail_in_rule(rules.rule(done.error().rule).name, done.error().message);
    return std::unexpected(reader.error());
  }
  return {};
}

}  // namespace tessera::text::grammar
