#include "tessera/text/grammar/regex_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/grammar/ascii.h"
#include "tessera/text/grammar/expression.h"
#include "tessera/text/grammar/utf8_expression.h"
#include "tessera/text/utf8.h"

namespace tessera::text::grammar {
namespace {

constexpr size_t kManyRanges = 4096;  // of a class, to be sorted
constexpr uint32_t kFirstHighSurrogate = 0xd800, kLastHighSurrogate = 0xdbff;
constexpr uint32_t kFirstLowSurrogate = 0xdc00, kLastLowSurrogate = 0xdfff;

CodePointSet set_of(std::span<const CodePointRange> ranges) { return CodePointSet(ranges); }

CodePointSet digits() {
  constexpr CodePointRange kRanges[] = {{'0', '9'}};
  return set_of(kRanges);
}

// White space and line ends of ECMA-262.
CodePointSet spaces() {
  constexpr CodePointRange kRanges[] = {{0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680},
                                        {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                        {0x3000, 0x3000}, {0xfeff, 0xfeff}};
  return set_of(kRanges);
}

CodePointSet line_ends() {
  constexpr CodePointRange kRanges[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set_of(kRanges);
}

}  // namespace

CodePointSet word_characters() {
  constexpr CodePointRange kRanges[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set_of(kRanges);
}

RegexTree::Part RegexTree::add(Node node, std::span<const Part> children) {
  node.first_child = static_cast<uint32_t>(children_.size());
  node.n_children = static_cast<uint32_t>(children.size());
  for (const Part child : children) node.has_assertions |= nodes_[child].has_assertions;
  children_.insert(children_.end(), children.begin(), children.end());
  nodes_.push_back(node);
  return static_cast<Part>(nodes_.size() - 1);
}

RegexTree::Part RegexTree::add_set(CodePointSet set) {
  sets_.push_back(std::move(set));
  return add({.kind = Kind::set, .value = static_cast<uint32_t>(sets_.size() - 1)});
}

// A function that finds an error notes it and returns nothing or false, which the callers pass on.
class RegexParser {
 public:
  explicit RegexParser(std::string_view source) : source_(source) {}

  std::expected<RegexTree, RegexError> parse() {
    if (source_.size() > RegexTree::kMaxSourceBytes) refuse("more than 64 KiB");
    if (!failed_ && !is_valid_utf8(source_)) refuse("not UTF-8");
    if (!failed_) parse_alternatives();
    if (failed_) return std::unexpected(error_);
    return std::move(tree_);
  }

 private:
  using Kind = RegexTree::Kind;
  using Part = RegexTree::Part;
  struct Group {
    Kind kind = Kind::alternatives;  // or an assertion
    std::vector<Part> alternatives{}, sequence{};
  };

  bool at_end() const { return at_ >= source_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool take(std::string_view text) {
    if (!source_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  uint32_t take_code_point() {
    const CodePointStep step = next_code_point(source_.substr(at_));
    at_ += step.n_bytes;
    return step.code_point;
  }

  std::nullopt_t refuse_at(size_t at, std::string message) {
    const auto is_lead = [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; };
    error_.message = std::move(message);
    error_.column = static_cast<size_t>(std::ranges::count_if(source_.substr(0, at), is_lead)) + 1;
    failed_ = true;
    return std::nullopt;
  }
  std::nullopt_t refuse(std::string message) { return refuse_at(at_, std::move(message)); }

  void parse_alternatives() {
    std::vector<Group> groups(1);
    while (!at_end() && !failed_) {
      const size_t begin = at_;
      if (take("|")) {
        close_sequence(groups.back());
      } else if (take("(")) {
        if (groups.size() > RegexTree::kMaxDepth) {
          refuse_at(begin, fmt::format("groups nested deeper than {}", RegexTree::kMaxDepth));
          return;
        }
        groups.push_back({.kind = group_kind(begin)});
      } else if (take(")")) {
        if (groups.size() == 1) {
          refuse_at(begin, "unmatched )");
          return;
        }
        close_sequence(groups.back());
        const Part group = close(groups.back());
        groups.pop_back();
        append(groups.back(), group);
      } else if (const auto atom = parse_atom()) {
        append(groups.back(), *atom);
      }
    }
    if (failed_) return;
    if (groups.size() > 1) {
      refuse("missing )");
      return;
    }
    close_sequence(groups.back());
    close(groups.back());
  }

  // After the bracket of a group that begins at `begin`.
  Kind group_kind(size_t begin) {
    if (!take("?")) return Kind::alternatives;
    if (take(":")) return Kind::alternatives;
    if (take("=")) return Kind::follows;
    if (take("!")) return Kind::not_follows;
    if (peek() == '<' && (peek(1) == '=' || peek(1) == '!')) {
      refuse_at(begin, "lookbehind is not supported");
    } else if (take("<")) {
      const size_t end = source_.find('>', at_);
      if (end == std::string_view::npos || end == at_) {
        refuse("want the name of a group and >");
      } else {
        at_ = end + 1;
      }
    } else {
      refuse_at(begin, "flags inside a pattern are not supported");
    }
    return Kind::alternatives;
  }

  void close_sequence(Group& group) {
    const std::vector<Part> sequence = std::exchange(group.sequence, {});
    group.alternatives.push_back(sequence.size() == 1 ? sequence[0] : tree_.add({.kind = Kind::concat}, sequence));
  }

  // The last node that is added is the part.
  Part close(const Group& group) {
    const Part whole = tree_.add({.kind = Kind::alternatives}, group.alternatives);
    if (group.kind == Kind::alternatives) return whole;
    return tree_.add({.kind = group.kind, .has_assertions = true}, std::span(&whole, 1));
  }

  void append(Group& group, Part part) {
    const size_t begin = at_;
    uint32_t min = 1, max = 1;
    if (take("*")) {
      min = 0, max = kUnbounded;
    } else if (take("+")) {
      max = kUnbounded;
    } else if (take("?")) {
      min = 0;
    } else if (const auto bounds = take_bounds()) {
      std::tie(min, max) = *bounds;
    } else {
      group.sequence.push_back(part);
      return;
    }
    take("?");  // a lazy quantifier has the same language
    if (max < min) {
      refuse_at(begin, "bounds out of order");
    } else if (min > kMaxRepeat || (max > kMaxRepeat && max != kUnbounded)) {
      refuse_at(begin, fmt::format("more than {} repetitions", kMaxRepeat));
    } else if (tree_.nodes_[part].has_assertions && max > 1) {
      refuse_at(begin, "an assertion inside a repeated group is not supported");
    } else if (const char c = peek(); c == '*' || c == '+' || c == '?') {
      refuse("nothing to repeat");
    }
    if (min == 0 && max == 1) {
      const Part either[] = {part, tree_.add({.kind = Kind::concat})};
      group.sequence.push_back(tree_.add({.kind = Kind::alternatives}, either));
      return;
    }
    group.sequence.push_back(tree_.add({.kind = Kind::repeat, .min = min, .max = max}, std::span(&part, 1)));
  }

  // {m}, {m,} or {m,n}; nothing where a bracket begins no such quantifier.
  std::optional<std::pair<uint32_t, uint32_t>> take_bounds() {
    if (peek() != '{' || !is_digit(peek(1))) return std::nullopt;
    const size_t close = source_.find('}', at_);
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view text = source_.substr(at_ + 1, close - at_ - 1);
    const size_t comma = std::min(text.find(','), text.size());
    const auto number = [](std::string_view digits) -> std::optional<uint32_t> {
      if (digits.empty() || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
      uint32_t value = 0;
      const bool fits = std::from_chars(digits.begin(), digits.end(), value).ec == std::errc();
      return fits && value <= kMaxRepeat ? value : kMaxRepeat + 1;
    };
    const auto min = number(text.substr(0, comma));
    if (!min) return std::nullopt;
    std::pair<uint32_t, uint32_t> bounds{*min, *min};
    if (comma + 1 == text.size()) bounds.second = kUnbounded;
    if (comma + 1 < text.size()) {
      const auto max = number(text.substr(comma + 1));
      if (!max) return std::nullopt;
      bounds.second = *max;
    }
    at_ = close + 1;
    return bounds;
  }

  std::optional<Part> parse_atom() {
    const char c = peek();
    if (c == '^' || c == '$') {
      ++at_;
      return tree_.add({.kind = c == '^' ? Kind::text_start : Kind::text_end, .has_assertions = true});
    }
    if (take(".")) return tree_.add_set(line_ends().complement());
    if (c == '[') return parse_class();
    if (c == '*' || c == '+' || c == '?') return refuse("nothing to repeat");
    if (c != '\\') {
      const uint32_t code_point = take_code_point();
      return tree_.add_set(one(code_point));
    }
    if (peek(1) == 'b' || peek(1) == 'B') {
      const bool is_edge = peek(1) == 'b';
      at_ += 2;
      return tree_.add({.kind = is_edge ? Kind::word_edge : Kind::no_word_edge, .has_assertions = true});
    }
    const auto escaped = parse_escape(false);
    if (!escaped) return std::nullopt;
    return tree_.add_set(*escaped);
  }

  static CodePointSet one(uint32_t code_point) {
    const CodePointRange range{code_point, code_point};
    return set_of(std::span(&range, 1));
  }
  static std::optional<uint32_t> only(const CodePointSet& set) {
    const auto ranges = set.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].last) return std::nullopt;
    return ranges[0].first;
  }

  std::optional<Part> parse_class() {
    const size_t begin = at_++;
    const bool is_complement = take("^");
    std::vector<CodePointRange> ranges;
    size_t n_sorted = 0;
    const auto add = [&](const CodePointSet& atom) {
      ranges.insert(ranges.end(), atom.ranges().begin(), atom.ranges().end());
      if (ranges.size() < 2 * n_sorted + kManyRanges) return;
      const CodePointSet sorted(ranges);
      ranges.assign(sorted.ranges().begin(), sorted.ranges().end());
      n_sorted = ranges.size();
    };
    while (!at_end() && peek() != ']') {
      const size_t range_begin = at_;
      const auto first = parse_class_atom();
      if (!first) return std::nullopt;
      if (peek() != '-' || peek(1) == ']' || at_ + 1 >= source_.size()) {
        add(*first);
        continue;
      }
      ++at_;
      const auto last = parse_class_atom();
      if (!last) return std::nullopt;
      const auto from = only(*first), to = only(*last);
      if (from && to) {
        if (*to < *from) return refuse_at(range_begin, "range out of order");
        ranges.push_back({*from, *to});
      } else {  // "[\w-.]" has a hyphen
        add(*first);
        add(one('-'));
        add(*last);
      }
    }
    if (!take("]")) return refuse_at(begin, "missing ]");
    const CodePointSet set(ranges);
    return tree_.add_set(is_complement ? set.complement() : set);
  }

  std::optional<CodePointSet> parse_class_atom() {
    if (peek() == '\\') return parse_escape(true);
    return one(take_code_point());
  }

  std::optional<CodePointSet> parse_escape(bool in_class) {
    const size_t begin = at_++;
    if (at_end()) return refuse_at(begin, "\\ at the end");
    const char c = peek();
    if (in_class && take("b")) return one('\b');
    if (c == 'd' || c == 'D' || c == 'w' || c == 'W' || c == 's' || c == 'S') {
      ++at_;
      const CodePointSet set = c == 'd' || c == 'D' ? digits() : c == 'w' || c == 'W' ? word_characters() : spaces();
      return c == 'D' || c == 'W' || c == 'S' ? set.complement() : set;
    }
    if (c == 'p' || c == 'P') return parse_property(begin);
    constexpr std::string_view kNames = "tnrfv", kMeanings = "\t\n\r\f\v";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      ++at_;
      return one(static_cast<uint8_t>(kMeanings[i]));
    }
    if (c == '0' && !is_digit(peek(1))) {
      ++at_;
      return one(0);
    }
    if (is_digit(c) || c == 'k') return refuse_at(begin, "backreferences are not supported");
    if (c == 'c' && is_letter(peek(1))) {
      at_ += 2;
      return one(static_cast<uint8_t>(source_[at_ - 1]) % 32);
    }
    if (c == 'x' || c == 'u') return parse_hex(begin);
    if (is_letter(c)) return refuse_at(begin, "unknown escape");
    return one(take_code_point());
  }

  std::optional<uint32_t> take_hex(size_t n_digits) {
    const std::string_view digits = source_.substr(at_, n_digits);
    if (digits.size() < n_digits || !std::ranges::all_of(digits, is_hex_digit)) return std::nullopt;
    uint32_t value = 0;
    if (std::from_chars(digits.begin(), digits.end(), value, 16).ec != std::errc()) return std::nullopt;
    at_ += n_digits;
    return value;
  }

  std::optional<CodePointSet> parse_hex(size_t begin) {
    const bool is_brief = peek() == 'x';
    ++at_;
    std::optional<uint32_t> code_point;
    if (!is_brief && take("{")) {
      const size_t n_digits = source_.substr(at_).find('}');
      if (n_digits <= 6 && n_digits > 0) code_point = take_hex(n_digits);
      if (code_point) ++at_;
    } else {
      code_point = take_hex(is_brief ? 2 : 4);
    }
    if (!code_point || *code_point > kMaxCodePoint) return refuse_at(begin, "want a code point in hex digits");
    const bool is_high = *code_point >= kFirstHighSurrogate && *code_point <= kLastHighSurrogate;
    if (is_high && take("\\u")) {
      const auto low = take_hex(4);
      if (!low || *low < kFirstLowSurrogate || *low > kLastLowSurrogate)
        return refuse_at(begin, "half a surrogate pair");
      code_point = 0x10000 + ((*code_point - kFirstHighSurrogate) << 10) + (*low - kFirstLowSurrogate);
    }
    return one(*code_point);
  }

  std::optional<CodePointSet> parse_property(size_t begin) {
    const bool is_complement = peek() == 'P';
    ++at_;
    if (!take("{")) return refuse_at(begin, "want a property in { }");
    const size_t end = source_.find('}', at_);
    if (end == std::string_view::npos) return refuse_at(begin, "want a property in { }");
    const std::string_view name = source_.substr(at_, end - at_);
    at_ = end + 1;
    const auto set = property(name);
    if (!set) return refuse_at(begin, fmt::format("unknown property {}", quote_text(name)));
    return is_complement ? set->complement() : *set;
  }

  std::optional<CodePointSet> property(std::string_view name) {
    for (const std::string_view prefix : {"General_Category=", "gc="})
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    if (name == "Any") return CodePointSet().complement();
    if (name == "ASCII") {
      constexpr CodePointRange kAscii[] = {{0, 0x7f}};
      return set_of(kAscii);
    }
    struct LongName {
      std::string_view name, brief;
    };
    constexpr LongName kLongNames[] = {{"Letter", "L"},
                                       {"Lowercase_Letter", "Ll"},
                                       {"Uppercase_Letter", "Lu"},
                                       {"Titlecase_Letter", "Lt"},
                                       {"Modifier_Letter", "Lm"},
                                       {"Other_Letter", "Lo"},
                                       {"Mark", "M"},
                                       {"Number", "N"},
                                       {"Decimal_Number", "Nd"},
                                       {"digit", "Nd"},
                                       {"Letter_Number", "Nl"},
                                       {"Other_Number", "No"},
                                       {"Punctuation", "P"},
                                       {"punct", "P"},
                                       {"Symbol", "S"},
                                       {"Separator", "Z"},
                                       {"Space_Separator", "Zs"},
                                       {"Other", "C"},
                                       {"Control", "Cc"}};
    const auto found = std::ranges::find(kLongNames, name, &LongName::name);
    const uint32_t mask = category_mask(found == std::end(kLongNames) ? name : found->brief);
    if (mask == 0) return std::nullopt;
    const auto known = categories_.find(mask);
    return known != categories_.end() ? known->second
                                      : categories_.emplace(mask, CodePointSet::of_categories(mask)).first->second;
  }

  std::string_view source_;
  RegexTree tree_;
  std::map<uint32_t, CodePointSet> categories_{};  // by mask
  RegexError error_;
  bool failed_ = false;
  size_t at_ = 0;
};

std::expected<RegexTree, RegexError> RegexTree::parse(std::string_view source) { return RegexParser(source).parse(); }

}  // namespace tessera::text::grammar
