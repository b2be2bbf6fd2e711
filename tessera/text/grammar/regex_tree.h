// Regular expressions of ECMA-262 with the flag "u", as a tree. What is only legal without the flag ("\-", a "{" that
// begins no quantifier) is taken as written.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/code_point_set.h"

namespace tessera::text::grammar {

struct RegexError {
  std::string message{};
  size_t column = 1;  // in code points from 1
};

class RegexTree {
 public:
  static constexpr size_t kMaxSourceBytes = size_t{64} << 10;
  static constexpr size_t kMaxDepth = 256;

  enum class Kind : uint8_t {
    set,           // one code point of sets()[value]
    concat,        // all children, one after another; none: the empty text
    alternatives,  // one of the children
    repeat,        // min to max times the child
    text_start,    // ^
    text_end,      // $
    word_edge,     // \b
    no_word_edge,  // \B
    follows,       // (?=...)
    not_follows,   // (?!...)
  };
  using Part = uint32_t;
  struct Node {
    Kind kind;
    bool has_assertions = false;  // the part or a child looks at the text around it
    uint32_t value = 0;
    uint32_t min = 0, max = 0;
    uint32_t first_child = 0, n_children = 0;
  };

  /// Errors: syntax; what is not regular or not supported (backreferences, lookbehind, flags inside); a limit.
  static std::expected<RegexTree, RegexError> parse(std::string_view source);

  /// Children come before their parents; the last node is the whole.
  std::span<const Node> nodes() const { return nodes_; }
  Part root() const { return static_cast<Part>(nodes_.size() - 1); }
  std::span<const Part> children(const Node& node) const {
    return std::span(children_).subspan(node.first_child, node.n_children);
  }
  const CodePointSet& set(const Node& node) const { return sets_[node.value]; }

 private:
  friend class RegexParser;

  Part add(Node node, std::span<const Part> children = {});
  Part add_set(CodePointSet set);

  std::vector<Node> nodes_;
  std::vector<Part> children_;
  std::vector<CodePointSet> sets_;
};

/// The code points of \w.
CodePointSet word_characters();

}  // namespace tessera::text::grammar
