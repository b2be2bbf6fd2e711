#include "tessera/text/grammar/syntax_tree.h"

#include <algorithm>
#include <optional>

namespace tessera::text::grammar {

SyntaxTree::Name SyntaxTree::name(std::string_view text) {
  const auto found = names_.find(text);
  if (found != names_.end()) return found->second;
  const auto added = static_cast<Name>(rules_.size());
  names_.emplace(text, added);
  rules_.push_back({.name = std::string(text)});
  return added;
}

void SyntaxTree::define(Name name, Part first_part, Part root) {
  Rule& rule = rules_[name];
  rule.is_defined = true;
  rule.root = root;
  rule.first_part = first_part;
}

SyntaxTree::Part SyntaxTree::tokens(TokenSet set) {
  token_sets_.push_back(std::move(set));
  return add({.kind = Node::Kind::tokens, .value = static_cast<uint32_t>(token_sets_.size() - 1)}, {});
}

SyntaxTree::Part SyntaxTree::repeat(Part part, uint32_t min, uint32_t max) {
  return add({.kind = Node::Kind::repeat, .min = min, .max = max}, std::span(&part, 1));
}

SyntaxTree::Part SyntaxTree::add(Node node, std::span<const Part> children) {
  node.first_child = static_cast<uint32_t>(children_.size());
  node.n_children = static_cast<uint32_t>(children.size());
  children_.insert(children_.end(), children.begin(), children.end());
  nodes_.push_back(node);
  return static_cast<Part>(nodes_.size() - 1);
}

namespace {

// A lexeme has a state for each count of its repetitions that a text reaches. Above this product of nested bounds, a
// repetition is a rule with a count.
constexpr uint64_t kMaxLexemeCount = 10'000;

}  // namespace

// The parts of a rule come after their children, so one pass forward gives the regular parts their expressions, and one
// pass backward gives the others their states.
class SyntaxRules {
 public:
  using Part = SyntaxTree::Part;
  using Name = SyntaxTree::Name;
  using Node = SyntaxTree::Node;

  SyntaxRules(const SyntaxTree& tree, ExpressionArena& arena, Rules& rules)
      : tree_(tree),
        arena_(arena),
        rules_(rules),
        expressions_(tree.nodes_.size()),
        counts_(tree.nodes_.size(), 1),
        spans_(tree.nodes_.size()),
        ids_(tree.rules_.size()) {}

  void build(Name start) {
    for (const Name name : inner_first(start)) find_expressions(name);
    rules_.set_start(id_of(start));
    for (size_t i = 0; i < open_.size(); ++i) build_rule(open_[i]);
  }

 private:
  struct Span {
    RuleState from = 0, to = 0;
  };

  // The rules that a rule reaches; a rule comes after those that it uses, except within cycles.
  std::vector<Name> inner_first(Name start) {
    struct Step {
      Name name;
      std::vector<Name> next;
    };
    std::vector<bool> is_seen(tree_.rules_.size());
    std::vector<Step> path;
    std::vector<Name> order;
    const auto enter = [&](Name name) {
      if (is_seen[name]) return;
      is_seen[name] = true;
      path.push_back({name, used_by(name)});
    };
    enter(start);
    while (!path.empty()) {
      if (path.back().next.empty()) {
        order.push_back(path.back().name);
        path.pop_back();
        continue;
      }
      const Name next = path.back().next.back();
      path.back().next.pop_back();
      enter(next);
    }
    return order;
  }

  std::vector<Name> used_by(Name name) const {
    const SyntaxTree::Rule& rule = tree_.rules_[name];
    std::vector<Name> used;
    for (Part part = rule.first_part; part <= rule.root; ++part)
      if (tree_.nodes_[part].kind == Node::Kind::rule) used.push_back(tree_.nodes_[part].value);
    return used;
  }

  void find_expressions(Name name) {
    const SyntaxTree::Rule& rule = tree_.rules_[name];
    for (Part part = rule.first_part; part <= rule.root; ++part) {
      counts_[part] = count_of(part);
      if (counts_[part] <= kMaxLexemeCount) expressions_[part] = expression_of(part);
    }
    rule_expressions_[name] = expressions_[rule.root];
    rule_counts_[name] = counts_[rule.root];
  }

  // The product of the bounds of repetitions within each other.
  uint64_t count_of(Part part) {
    const Node& node = tree_.nodes_[part];
    if (node.kind == Node::Kind::rule) return rule_counts_[node.value];
    uint64_t count = 1;
    for (const Part child : tree_.children(node)) count = std::max(count, counts_[child]);
    if (node.kind != Node::Kind::repeat) return count;
    const uint64_t bound = std::max<uint64_t>(node.max == kUnbounded ? node.min : node.max, 1);
    return std::min(bound * count, kMaxLexemeCount + 1);
  }

  // The expression of a part whose children have theirs, or nothing if it is not regular.
  std::optional<Expression> expression_of(Part part) {
    const Node& node = tree_.nodes_[part];
    if (node.kind == Node::Kind::lexeme) return node.value;
    if (node.kind == Node::Kind::tokens) return std::nullopt;
    if (node.kind == Node::Kind::rule) {
      const auto found = rule_expressions_.find(node.value);
      return found == rule_expressions_.end() ? std::nullopt : found->second;
    }
    std::vector<Expression> children;
    for (const Part child : tree_.children(node)) {
      if (!expressions_[child]) return std::nullopt;
      children.push_back(*expressions_[child]);
    }
    if (node.kind == Node::Kind::sequence) return arena_.concat(children);
    if (node.kind == Node::Kind::alternatives) return arena_.any_of(std::move(children));
    return arena_.repeat(children[0], node.min, node.max);
  }

  RuleId id_of(Name name) {
    if (!ids_[name]) {
      ids_[name] = rules_.add_rule(tree_.rules_[name].name);
      open_.push_back(name);
    }
    return *ids_[name];
  }

  void build_rule(Name name) {
    const SyntaxTree::Rule& rule = tree_.rules_[name];
    const Rules::Rule& added = rules_.rule(*ids_[name]);
    is_used_.assign(rule.root - rule.first_part + 1, false);
    first_part_ = rule.first_part;
    set_span(rule.root, {added.start, added.end});
    for (Part part = rule.root + 1; part-- > rule.first_part;)
      if (is_used_[part - first_part_]) add_edges(part);
  }

  void set_span(Part part, Span span) {
    spans_[part] = span;
    is_used_[part - first_part_] = true;
  }

  void add_edges(Part part) {
    const Node& node = tree_.nodes_[part];
    const Span span = spans_[part];
    if (expressions_[part]) return add_lexeme(span, *expressions_[part]);
    switch (node.kind) {
      case Node::Kind::lexeme:
        break;
      case Node::Kind::rule:
        rules_.add_edge(span.from, {.kind = Edge::Kind::call, .value = id_of(node.value), .target = span.to});
        break;
      case Node::Kind::tokens: {
        const uint32_t set = rules_.add_token_set(tree_.token_sets_[node.value]);
        rules_.add_edge(span.from, {.kind = Edge::Kind::tokens, .value = set, .target = span.to});
        break;
      }
      case Node::Kind::sequence:
        add_sequence(tree_.children(node), span);
        break;
      case Node::Kind::alternatives:
        for (const Part child : tree_.children(node)) set_span(child, span);
        break;
      case Node::Kind::repeat:
        add_repeat(node, span);
        break;
    }
  }

  void add_lexeme(Span span, Expression expression) {
    rules_.add_edge(span.from, {.kind = Edge::Kind::lexeme, .value = expression, .target = span.to});
  }
  void add_step(RuleState from, RuleState to) { add_lexeme({from, to}, ExpressionArena::kEmpty); }

  // Neighbours that are regular are one lexeme.
  void add_sequence(std::span<const Part> parts, Span span) {
    RuleState from = span.from;
    for (size_t i = 0; i < parts.size();) {
      std::vector<Expression> lexeme;
      const size_t first = i;
      for (; i < parts.size() && expressions_[parts[i]]; ++i) lexeme.push_back(*expressions_[parts[i]]);
      if (i == first) ++i;
      const RuleState to = i == parts.size() ? span.to : rules_.add_state(rules_.rule_of(span.from));
      if (lexeme.empty())
        set_span(parts[first], {from, to});
      else
        add_lexeme({from, to}, arena_.concat(lexeme));
      from = to;
    }
  }

  void add_repeat(const Node& node, Span span) {
    const Part child = tree_.children(node)[0];
    const RuleId rule = rules_.rule_of(span.from);
    if (node.min == 0 && node.max == 1) {
      add_step(span.from, span.to);
      set_span(child, span);
    } else if (node.min == 0 && node.max == kUnbounded) {
      const RuleState loop = rules_.add_state(rule);
      add_step(span.from, loop);
      set_span(child, {loop, loop});
      add_step(loop, span.to);
    } else {
      const RuleId counted = rules_.add_rule(rules_.rule(rule).name);
      rules_.add_counter(counted, {.min = node.min, .max = node.max});
      const RuleState start = rules_.rule(counted).start, body = rules_.add_state(counted);
      rules_.add_edge(
          start,
          {.kind = Edge::Kind::lexeme, .value = ExpressionArena::kEmpty, .target = body, .adds = Rules::kFirstCounter});
      rules_.add_edge(start, {.kind = Edge::Kind::lexeme,
                              .value = ExpressionArena::kEmpty,
                              .target = rules_.rule(counted).end,
                              .needs_min = true});
      set_span(child, {body, start});
      rules_.add_edge(span.from, {.kind = Edge::Kind::call, .value = counted, .target = span.to});
    }
  }

  const SyntaxTree& tree_;
  ExpressionArena& arena_;
  Rules& rules_;
  std::vector<std::optional<Expression>> expressions_;  // by part
  std::vector<uint64_t> counts_;                        // by part
  std::map<Name, std::optional<Expression>> rule_expressions_;
  std::map<Name, uint64_t> rule_counts_;
  std::vector<Span> spans_;  // by part
  std::vector<std::optional<RuleId>> ids_;
  std::vector<Name> open_;
  std::vector<bool> is_used_;  // of the parts of the present rule
  Part first_part_ = 0;
};

void SyntaxTree::build(Name start, ExpressionArena& arena, Rules& rules) const {
  SyntaxRules(*this, arena, rules).build(start);
}

}  // namespace tessera::text::grammar
