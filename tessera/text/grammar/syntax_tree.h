// The rules of a grammar as trees of sequences, alternatives and repetitions, and their translation to automata.
// Readers of grammars build it from the leaves up.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/text/grammar/expression.h"
#include "tessera/text/grammar/rules.h"

namespace tessera::text::grammar {

class SyntaxTree {
 public:
  using Part = uint32_t;
  using Name = uint32_t;  // of a rule

  struct Node {
    enum class Kind : uint8_t { lexeme, rule, tokens, sequence, alternatives, repeat };
    Kind kind;
    uint32_t value = 0;  // an Expression, a Name, or a place of a token set
    uint32_t min = 0, max = 0;
    uint32_t first_child = 0, n_children = 0;
  };
  struct Rule {
    std::string name;
    bool is_defined = false;
    Part root = 0, first_part = 0;  // the parts from first_part to root are those of the rule
  };

  Name name(std::string_view text);
  void define(Name name, Part first_part, Part root);

  Part lexeme(Expression expression) { return add({.kind = Node::Kind::lexeme, .value = expression}, {}); }
  Part rule(Name name) { return add({.kind = Node::Kind::rule, .value = name}, {}); }
  Part tokens(TokenSet set);
  Part sequence(std::span<const Part> parts) { return add({.kind = Node::Kind::sequence}, parts); }
  Part alternatives(std::span<const Part> parts) { return add({.kind = Node::Kind::alternatives}, parts); }
  Part repeat(Part part, uint32_t min, uint32_t max);

  size_t n_parts() const { return nodes_.size(); }
  const std::vector<Rule>& rules() const { return rules_; }

  /// Adds the rules that the start rule reaches. Texts of rules that are regular become lexemes. All rules that are
  /// used must be defined.
  void build(Name start, ExpressionArena& arena, Rules& rules) const;

 private:
  friend class SyntaxRules;

  Part add(Node node, std::span<const Part> children);
  std::span<const Part> children(const Node& node) const {
    return std::span(children_).subspan(node.first_child, node.n_children);
  }

  std::vector<Node> nodes_;
  std::vector<Part> children_;
  std::vector<Rule> rules_;
  std::vector<TokenSet> token_sets_;
  std::map<std::string, Name, std::less<>> names_;
};

}  // namespace tessera::text::grammar
