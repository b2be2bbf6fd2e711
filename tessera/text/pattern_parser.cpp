// Recursive descent into a tree, which is then compiled to steps. A repeat emits the steps of its operand once per
// repetition.
#include "tessera/text/pattern_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

// Script=Han (Unicode 14, Scripts.txt).
constexpr std::array<CodePointRange, 20> kHan{
    {{0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},   {0x3007, 0x3007},
     {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},
     {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3}, {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B738},
     {0x2B740, 0x2B81D}, {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2F800, 0x2FA1D}, {0x30000, 0x3134A}}};

constexpr uint32_t kUnlimited = UINT32_MAX;
constexpr uint32_t kMaxRepeats = 1000;
constexpr int kMaxNesting = 64;        // groups and classes in each other
constexpr size_t kMaxSteps = 1 << 16;  // of a program; a pattern that a vocabulary loads with has fewer than 32767

struct Node {
  enum class Kind { set, sequence, choice, repeat, look, look_not };
  Kind kind;
  CodePointSet set = {};
  std::vector<Node> children = {};
  uint32_t min = 1;
  uint32_t max = 1;
};

enum class Case { as_written, ignored };

// NOLINTBEGIN(misc-no-recursion): kMaxNesting bounds it.
class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Result<Node> parse() {
    TESSERA_ASSIGN(Node node, parse_choice(Case::as_written));
    if (at_ < pattern_.size()) return error("a ) too many");
    return node;
  }

 private:
  std::unexpected<Error> error(std::string_view what) const {
    return fail(ErrorCode::invalid_argument, "pattern {} at byte {}: {}", quote_text(pattern_, 200), at_, what);
  }
  bool at_end() const { return at_ == pattern_.size(); }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool skip(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  uint32_t take() {
    const CodePointStep step = next_code_point(pattern_.substr(at_));
    at_ += step.n_bytes;
    return step.code_point;
  }

  Result<Node> parse_choice(Case letters) {
    if (++nesting_ > kMaxNesting) return error("too deep");
    Node choice{Node::Kind::choice};
    do {
      TESSERA_ASSIGN(Node sequence, parse_sequence(letters));
      choice.children.push_back(std::move(sequence));
    } while (skip("|"));
    --nesting_;
    return choice;
  }

  Result<Node> parse_sequence(Case letters) {
    Node sequence{Node::Kind::sequence};
    while (!at_end() && !next_is("|") && !next_is(")")) {
      TESSERA_ASSIGN(Node atom, parse_atom(letters));
      TESSERA_ASSIGN(Node repeated, parse_repeat(std::move(atom)));
      sequence.children.push_back(std::move(repeated));
    }
    return sequence;
  }

  Result<Node> parse_atom(Case letters) {
    if (skip("(?!")) return parse_look(Node::Kind::look_not);
    if (skip("(?=")) return parse_look(Node::Kind::look);
    if (skip("$")) return Node{Node::Kind::look_not, CodePointSet().complement()};
    if (skip("(?i:")) return parse_group(Case::ignored);
    if (skip("(?:") || skip("(")) return parse_group(letters);
    TESSERA_ASSIGN(CodePointSet set, parse_one());
    if (letters == Case::ignored) set.add(other_case(set));
    return Node{Node::Kind::set, std::move(set)};
  }

  Result<Node> parse_group(Case letters) {
    TESSERA_ASSIGN(Node node, parse_choice(letters));
    if (!skip(")")) return error("a ( without its )");
    return node;
  }

  Result<Node> parse_look(Node::Kind kind) {
    TESSERA_ASSIGN(CodePointSet set, parse_one());
    if (!skip(")")) return error("want ) after one class");
    if (!at_end() && !next_is("|") && !next_is(")")) return error("a look-ahead must end its alternative");
    return Node{kind, std::move(set)};
  }

  // Parses one of ? * + {n} {m,n}, and the + of possessive repeats.
  Result<Node> parse_repeat(Node atom) {
    Node repeat{Node::Kind::repeat};
    if (skip("?")) {
      repeat.min = 0;
    } else if (skip("*")) {
      repeat.min = 0, repeat.max = kUnlimited;
    } else if (skip("+")) {
      repeat.max = kUnlimited;
    } else if (skip("{")) {
      TESSERA_ASSIGN(repeat.min, parse_count());
      repeat.max = repeat.min;
      if (skip(",")) {
        TESSERA_ASSIGN(repeat.max, parse_count());
      }
      if (!skip("}") || repeat.max < repeat.min || repeat.max == 0) return error("bad {m,n}");
    } else {
      return atom;
    }
    skip("+");
    repeat.children.push_back(std::move(atom));
    return repeat;
  }

  Result<uint32_t> parse_count() {
    uint32_t count = 0;
    const char* begin = pattern_.data() + at_;
    const auto [end, code] = std::from_chars(begin, pattern_.data() + pattern_.size(), count);
    if (code != std::errc{} || count > kMaxRepeats) return error("bad count");
    at_ += to_size(end - begin);
    return count;
  }

  /// Parses the code point of x{HHHH}.
  Result<uint32_t> parse_hex() {
    const char* begin = pattern_.data() + at_ + 2;
    const char* limit = pattern_.data() + pattern_.size();
    uint32_t code_point = 0;
    const auto [end, code] = std::from_chars(begin, limit, code_point, 16);
    if (code != std::errc{} || end == limit || *end != '}' || code_point > kMaxCodePoint) return error("bad \\x{HHHH}");
    at_ = to_size(end - pattern_.data()) + 1;
    return code_point;
  }

  /// Parses one code point, escape or [class].
  Result<CodePointSet> parse_one() {
    if (skip("[")) return parse_class();
    return parse_code_points();
  }

  /// Parses one code point or escape.
  Result<CodePointSet> parse_code_points() {
    if (at_end()) return error("want a code point");
    if (next_is("\\")) return parse_escape();
    return single(take());
  }

  static CodePointSet single(uint32_t code_point) {
    return CodePointSet(std::array<CodePointRange, 1>{{{code_point, code_point}}});
  }

  Result<CodePointSet> parse_escape() {
    ++at_;
    if (at_end()) return error("nothing after \\");
    if (next_is("x{")) {
      TESSERA_ASSIGN(const uint32_t code_point, parse_hex());
      return single(code_point);
    }
    if (skip("p{")) {
      const size_t end = pattern_.find('}', at_);
      const std::string_view name = pattern_.substr(at_, end - at_);
      const uint32_t mask = category_mask(name);
      if (end == std::string_view::npos || (mask == 0 && name != "Han")) return error("unknown property");
      at_ = end + 1;
      return mask == 0 ? CodePointSet(kHan) : CodePointSet::of_categories(mask);
    }
    const uint32_t c = take();
    switch (c) {
      case 's':
        return CodePointSet(white_space());
      case 'S':
        return CodePointSet(white_space()).complement();
      case 'd':
        return CodePointSet::of_categories(bit_of(Category::nd));
      case 'r':
        return single('\r');
      case 'n':
        return single('\n');
      case 't':
        return single('\t');
      default:
        break;
    }
    const bool is_sign = c < 0x80 && category_of(c) != Category::ll && category_of(c) != Category::lu;
    if (!is_sign) return error("unknown escape");
    return single(c);
  }

  Result<CodePointSet> parse_class() {
    const bool negated = skip("^");
    CodePointSet set;
    while (!at_end() && !next_is("]") && !next_is("&&[")) {
      TESSERA_ASSIGN(CodePointSet item, parse_class_item());
      set.add(item);
    }
    if (skip("&&[")) {
      if (++nesting_ > kMaxNesting) return error("too deep");
      TESSERA_ASSIGN(const CodePointSet other, parse_class());
      set = set.intersection(other);
      --nesting_;
    }
    if (!skip("]")) return error("a [ without its ]");
    return negated ? set.complement() : set;
  }

  Result<CodePointSet> parse_class_item() {
    TESSERA_ASSIGN(CodePointSet set, parse_code_points());
    if (!next_is("-") || next_is("-]")) return set;
    ++at_;
    TESSERA_ASSIGN(const CodePointSet end, parse_code_points());
    const auto is_single = [](const CodePointSet& s) {
      return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].last;
    };
    if (!is_single(set) || !is_single(end)) return error("a range wants code points");
    const uint32_t first = set.ranges()[0].first;
    const uint32_t last = end.ranges()[0].first;
    if (last < first) return error("a range that ends before it starts");
    return CodePointSet(std::array<CodePointRange, 1>{{{first, last}}});
  }

  // The ASCII letters of the other case, and the long s, which folds to s.
  static CodePointSet other_case(const CodePointSet& set) {
    std::vector<CodePointRange> others;
    for (const CodePointRange& range : set.ranges()) {
      for (uint32_t c = range.first; c <= std::min<uint32_t>(range.last, 'z'); ++c) {
        const uint32_t lower = to_lower(c);
        if (lower < 'a' || lower > 'z') continue;
        others.push_back({lower, lower});
        others.push_back({lower - 'a' + 'A', lower - 'a' + 'A'});
        if (lower == 's') others.push_back({0x17F, 0x17F});
      }
    }
    return CodePointSet(others);
  }

  std::string_view pattern_;
  size_t at_ = 0;
  int nesting_ = 0;
};

class Emitter {
 public:
  /// Stops at kMaxSteps.
  void emit(const Node& node) {
    if (program_.steps.size() > kMaxSteps) return;
    switch (node.kind) {
      case Node::Kind::set:
        push(PatternStep::Kind::set, index_of(node.set));
        break;
      case Node::Kind::look:
        push(PatternStep::Kind::look, index_of(node.set));
        break;
      case Node::Kind::look_not:
        push(PatternStep::Kind::look_not, index_of(node.set));
        break;
      case Node::Kind::sequence:
        for (const Node& child : node.children) emit(child);
        break;
      case Node::Kind::choice:
        emit_choice(node);
        break;
      case Node::Kind::repeat:
        emit_repeat(node);
        break;
    }
  }

  PatternProgram finish() {
    push(PatternStep::Kind::match, 0);
    return std::move(program_);
  }

 private:
  using Kind = PatternStep::Kind;
  uint32_t here() const { return static_cast<uint32_t>(program_.steps.size()); }
  void push(Kind kind, uint32_t a) { program_.steps.push_back({kind, a}); }

  uint32_t index_of(const CodePointSet& set) {
    auto& sets = program_.sets;
    const auto found = std::find(sets.begin(), sets.end(), set);
    if (found != sets.end()) return static_cast<uint32_t>(found - sets.begin());
    sets.push_back(set);
    return static_cast<uint32_t>(sets.size() - 1);
  }

  /// Appends a fork to the next step and to another step, which is set later.
  uint32_t push_fork() {
    program_.steps.push_back({Kind::fork, here() + 1, here() + 1});
    return here() - 1;
  }

  void emit_choice(const Node& node) {
    std::vector<uint32_t> exits;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const bool is_last = i + 1 == node.children.size();
      const uint32_t fork = is_last ? 0 : push_fork();
      emit(node.children[i]);
      if (is_last) break;
      exits.push_back(push_fork());
      program_.steps[fork].b = here();
    }
    for (const uint32_t exit : exits) program_.steps[exit].a = program_.steps[exit].b = here();
  }

  void emit_repeat(const Node& node) {
    const Node& child = node.children[0];
    const uint32_t begin = here();
    for (uint32_t i = 0; i < node.min; ++i) {
      emit(child);
      if (here() == begin) break;  // an empty group: nested repeats of it would take long for nothing
    }
    if (node.max == kUnlimited) {
      const uint32_t fork = push_fork();
      emit(child);
      program_.steps.push_back({Kind::fork, fork, fork});
      program_.steps[fork].b = here();
      return;
    }
    std::vector<uint32_t> forks;
    for (uint32_t i = node.min; i < node.max; ++i) {
      forks.push_back(push_fork());
      emit(child);
    }
    for (const uint32_t fork : forks) program_.steps[fork].b = here();
  }

  PatternProgram program_;
};
// NOLINTEND(misc-no-recursion)

}  // namespace

Result<PatternProgram> parse_pattern(std::string_view pattern) {
  TESSERA_ASSIGN(const Node node, Parser(pattern).parse());
  Emitter emitter;
  emitter.emit(node);
  PatternProgram program = emitter.finish();
  if (program.steps.size() > kMaxSteps)
    return fail(ErrorCode::limit, "pattern {}: more than {} steps", quote_text(pattern, 200), kMaxSteps);
  return program;
}

}  // namespace tessera::text
