#include "tessera/text/grammar/regex_language.h"

#include <array>
#include <map>
#include <optional>
#include <utility>

namespace tessera::text::grammar {
namespace {

// Texts that may follow a place, by the character before it: nothing, a word character, or another one. Only
// assertions make them differ.
struct Following {
  Expression at_start, after_word, after_other;

  bool is_same() const { return at_start == after_word && after_word == after_other; }
};

class LanguageBuilder {
 public:
  using Kind = RegexTree::Kind;
  using Part = RegexTree::Part;
  using Node = RegexTree::Node;

  LanguageBuilder(const RegexTree& tree, const Spelling& spelling, ExpressionArena& arena)
      : tree_(tree), spelling_(spelling), arena_(arena), plain_(tree.nodes().size()) {
    const CodePointSet word = word_characters();
    word_ = spelling(word);
    other_ = spelling(word.complement());
    any_ = arena.repeat(arena.any_of(word_, other_), 0, kUnbounded);
    for (Part part = 0; part < tree.nodes().size(); ++part) plain_[part] = plain_of(part);
  }

  Expression build(MatchPlace place) {
    const Expression end = place == MatchPlace::anywhere ? any_ : ExpressionArena::kEmpty;
    const Following found = before(tree_.root(), {end, end, end});
    if (place == MatchPlace::whole) return found.at_start;
    const Expression after_word = arena_.concat(any_, arena_.concat(word_, found.after_word));
    const Expression after_other = arena_.concat(any_, arena_.concat(other_, found.after_other));
    return arena_.any_of({found.at_start, after_word, after_other});
  }

 private:
  // Steps of a walk from the right to the left. Values are on a stack of their own.
  struct Step {
    enum class Kind : uint8_t {
      part,   // replaces the top value by the part before it
      copy,   // pushes the value at `place` again
      unite,  // replaces the values above `place` by their union, which replaces that at `place`
      look,   // as unite, for a lookahead: one value above that at `place`
    };
    Kind kind;
    Part part = 0;
    size_t place = 0;
  };

  // Large sets, such as all letters, take a while.
  Expression spelled(const CodePointSet& set) {
    std::vector<uint32_t> key;
    for (const CodePointRange& range : set.ranges()) key.insert(key.end(), {range.first, range.last});
    const auto known = spelled_.find(key);
    if (known != spelled_.end()) return known->second;
    return spelled_.emplace(std::move(key), spelling_(set)).first->second;
  }

  // A part without assertions as an expression.
  Expression plain_of(Part part) {
    const Node& node = tree_.nodes()[part];
    if (node.has_assertions) return ExpressionArena::kNothing;
    std::vector<Expression> children;
    for (const Part child : tree_.children(node)) children.push_back(plain_[child]);
    switch (node.kind) {
      case Kind::set:
        return spelled(tree_.set(node));
      case Kind::concat:
        return arena_.concat(children);
      case Kind::repeat:
        return arena_.repeat(children[0], node.min, node.max);
      default:
        return arena_.any_of(std::move(children));
    }
  }

  // A part without assertions, before what follows it.
  Following before_plain(Expression part, const Following& then) {
    if (then.is_same()) {
      const Expression joined = arena_.concat(part, then.at_start);
      return {joined, joined, joined};
    }
    // The last character of the part decides what may follow.
    const Expression by_word = arena_.all_of(part, arena_.concat(any_, word_));
    const Expression by_other = arena_.all_of(part, arena_.concat(any_, other_));
    const Expression joined =
        arena_.any_of(arena_.concat(by_word, then.after_word), arena_.concat(by_other, then.after_other));
    if (!arena_.is_nullable(part)) return {joined, joined, joined};
    return {arena_.any_of(joined, then.at_start), arena_.any_of(joined, then.after_word),
            arena_.any_of(joined, then.after_other)};
  }

  // The next character is of \w, or it is not, or the text ends.
  Expression if_word(Expression then) { return arena_.all_of(then, arena_.concat(word_, any_)); }
  Expression if_no_word(Expression then) { return arena_.all_of(then, arena_.optional(arena_.concat(other_, any_))); }

  Following before_assertion(Kind kind, const Following& then) {
    switch (kind) {
      case Kind::text_start:
        return {then.at_start, ExpressionArena::kNothing, ExpressionArena::kNothing};
      case Kind::text_end: {
        const auto ended = [&](Expression e) {
          return arena_.is_nullable(e) ? ExpressionArena::kEmpty : ExpressionArena::kNothing;
        };
        return {ended(then.at_start), ended(then.after_word), ended(then.after_other)};
      }
      case Kind::word_edge:
        return {if_word(then.at_start), if_no_word(then.after_word), if_word(then.after_other)};
      default:
        return {if_no_word(then.at_start), if_word(then.after_word), if_no_word(then.after_other)};
    }
  }

  // Texts that follow, where the lookahead holds.
  Following look(bool is_negative, const Following& ahead, const Following& then) {
    const auto both = [&](Expression a, Expression b) {
      return arena_.all_of(is_negative ? arena_.all_of(any_, arena_.complement(a)) : a, b);
    };
    return {both(ahead.at_start, then.at_start), both(ahead.after_word, then.after_word),
            both(ahead.after_other, then.after_other)};
  }

  Following before(Part root, const Following& end) {
    std::vector<Following> values = {end};
    std::vector<Step> steps = {{.kind = Step::Kind::part, .part = root}};
    while (!steps.empty()) {
      const Step step = steps.back();
      steps.pop_back();
      switch (step.kind) {
        case Step::Kind::part:
          expand(step.part, values, steps);
          break;
        case Step::Kind::copy:
          values.push_back(values[step.place]);
          break;
        case Step::Kind::unite:
          unite(values, step.place);
          break;
        case Step::Kind::look: {
          const bool is_negative = tree_.nodes()[step.part].kind == Kind::not_follows;
          values[step.place] = look(is_negative, values.back(), values[step.place]);
          values.pop_back();
          break;
        }
      }
    }
    return values.back();
  }

  void expand(Part part, std::vector<Following>& values, std::vector<Step>& steps) {
    const Node& node = tree_.nodes()[part];
    const size_t place = values.size() - 1;
    if (!node.has_assertions) {
      values.back() = before_plain(plain_[part], values.back());
    } else if (node.kind == Kind::concat) {
      for (const Part child : tree_.children(node)) steps.push_back({.kind = Step::Kind::part, .part = child});
    } else if (node.kind == Kind::alternatives) {
      steps.push_back({.kind = Step::Kind::unite, .place = place});
      for (const Part child : tree_.children(node)) {
        steps.push_back({.kind = Step::Kind::part, .part = child});
        steps.push_back({.kind = Step::Kind::copy, .place = place});
      }
    } else if (node.kind == Kind::follows || node.kind == Kind::not_follows) {
      steps.push_back({.kind = Step::Kind::look, .part = part, .place = place});
      steps.push_back({.kind = Step::Kind::part, .part = tree_.children(node)[0]});
      values.push_back({any_, any_, any_});
    } else {
      values.back() = before_assertion(node.kind, values.back());
    }
  }

  void unite(std::vector<Following>& values, size_t place) {
    std::array<std::vector<Expression>, 3> all;
    for (size_t i = place + 1; i < values.size(); ++i) {
      all[0].push_back(values[i].at_start);
      all[1].push_back(values[i].after_word);
      all[2].push_back(values[i].after_other);
    }
    values.resize(place);
    values.push_back(
        {arena_.any_of(std::move(all[0])), arena_.any_of(std::move(all[1])), arena_.any_of(std::move(all[2]))});
  }

  const RegexTree& tree_;
  const Spelling& spelling_;
  ExpressionArena& arena_;
  std::map<std::vector<uint32_t>, Expression> spelled_;  // by the ranges of a set
  std::vector<Expression> plain_;                        // by part
  Expression word_ = 0, other_ = 0, any_ = 0;
};

}  // namespace

Expression language_of(const RegexTree& tree, MatchPlace place, const Spelling& spelling, ExpressionArena& arena) {
  return LanguageBuilder(tree, spelling, arena).build(place);
}

}  // namespace tessera::text::grammar
