// A grammar as a set of rules. Each rule is a small automaton whose edges are lexemes (regular texts), calls of rules,
// and tokens. A call of a rule has counters, which edges change and ask for: they bound repetitions without copies.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/text/grammar/expression.h"
#include "tessera/text/grammar/json_spelling.h"

namespace tessera::text::grammar {

using RuleId = uint32_t;
using RuleState = uint32_t;  // of all rules

struct Edge {
  enum class Kind : uint8_t {
    lexeme,  // value: an Expression; kEmpty is a step without text
    call,    // value: a RuleId
    tokens,  // value: a place in Rules::token_sets()
  };
  Kind kind;
  uint32_t value;
  RuleState target;
  uint32_t adds = 0;        // list of counters, a place in Rules::counter_lists(); open while each is below its maximum
  bool needs_min = false;   // open when all counters have reached their minimum
  bool needs_room = false;  // open while the first counter is below its maximum
  uint32_t capture = 0;     // of a lexeme: place in Rules::captures(), 0 for none
};

/// A lexeme that may not have a value again that it had before in the same call of a rule.
struct Capture {
  Expression before, inside, after;  // the lexeme; its value is in the texts of `inside`
  bool is_name;                      // inside of the quotes of a string; otherwise a JSON value that is no container
};

/// A number that each call of a rule has.
struct Counter {
  uint32_t min = 0, max = kUnbounded;
  // A step that adds one to the first counter adds one to at most one of the counters that are apart. So no step is
  // open after which these could not reach their minimum before the first counter reaches its maximum.
  bool is_apart = false;
};

/// Tokens by id.
struct TokenSet {
  std::vector<int32_t> ids{};
  bool is_complement = false;  // all but these, and but those that end a text
  bool has_no_text = false;    // of those, only the control tokens
};

/// Finds a token by its text: the id, or nothing.
using FindToken = std::function<std::optional<int32_t>(std::string_view text)>;

class Rules {
 public:
  struct Rule {
    std::string name;
    RuleState start = 0, end = 0;  // no edge leaves the end
    std::vector<Counter> counters{};
    bool has_captures = false;
  };
  static constexpr uint32_t kFirstCounter = 1;  // the list of the first counter alone
  static constexpr uint32_t kMaxDepth = 512;    // of calls within calls

  RuleId add_rule(std::string name);
  RuleState add_state(RuleId rule);
  void add_edge(RuleState from, Edge edge) {
    states_[from].edges.push_back(edge);
    ++n_edges_;
  }
  void add_capture(RuleState from, const Capture& capture, Edge edge, ExpressionArena& arena);
  /// The way in which captured values are written.
  void set_writing(const JsonOutput& output) { output_ = output; }
  const JsonOutput& writing() const { return output_; }
  uint32_t add_token_set(TokenSet set);
  /// Returns the place of the counter among those of the rule.
  uint32_t add_counter(RuleId rule, const Counter& counter);
  /// The place of a list of counters for Edge::adds.
  uint32_t add_counter_list(std::vector<uint32_t> counters);
  void set_start(RuleId rule) { start_ = rule; }
  /// Replaces each lexeme, of captured ones each part.
  void change_lexemes(FunctionRef<Expression(Expression)> changed, ExpressionArena& arena);

  /// Rules without a finite text, but for the start rule.
  enum class BarrenRules : uint8_t { are_faults, are_left_out };
  struct Fault {
    RuleId rule;
    std::string message;
  };
  /// Removes edges that lead to no end, and computes what the functions below return. Faults: a rule that the start
  /// rule reaches has no finite text or can begin with itself, or each text needs more than kMaxDepth calls.
  std::expected<void, Fault> finish(const ExpressionArena& arena, BarrenRules barren = BarrenRules::are_faults);

  size_t n_rules() const { return rules_.size(); }
  size_t n_states() const { return states_.size(); }
  /// The number of edges that were added.
  size_t n_edges() const { return n_edges_; }
  const Rule& rule(RuleId rule) const { return rules_[rule]; }
  RuleId start() const { return start_; }
  RuleId rule_of(RuleState state) const { return states_[state].rule; }
  bool is_end(RuleState state) const { return rules_[rule_of(state)].end == state; }
  std::span<const Edge> edges(RuleState state) const { return states_[state].edges; }
  const Capture& capture(uint32_t place) const { return captures_[place - 1]; }
  std::span<const uint32_t> counter_list(uint32_t place) const { return counter_lists_[place]; }
  const TokenSet& token_set(uint32_t place) const { return token_sets_[place]; }

  /// Whether a rule has a finite text.
  bool has_text(RuleId rule) const { return facts_[rule].has_text; }
  /// The number of calls within calls that the least nested text of a rule needs, itself included.
  uint32_t min_depth(RuleId rule) const { return facts_[rule].min_depth; }
  /// Whether a counter of a rule can grow without text. Then its minimum is 0.
  bool has_empty_turns(RuleId rule) const { return facts_[rule].has_empty_turns; }
  /// Rules that a rule can begin with have a higher rank.
  uint32_t rank(RuleId rule) const { return facts_[rule].rank; }

 private:
  struct State {
    RuleId rule;
    std::vector<Edge> edges{};
  };
  struct Facts {
    bool has_text = false;
    bool is_nullable = false;
    bool has_empty_turns = false;
    uint32_t min_depth = kUnbounded;
    uint32_t rank = 0;
  };

  class Reached;
  class Minima;
  template <typename IsStep>
  std::vector<uint32_t> depths(const IsStep& is_step) const;
  void find_empty_turns(const ExpressionArena& arena);
  std::vector<RuleState> reached_empty(RuleState from, const ExpressionArena& arena) const;
  void remove_dead_ends();
  std::expected<void, Fault> rank_rules(const ExpressionArena& arena);
  std::vector<RuleId> first_calls(RuleId rule, const ExpressionArena& arena) const;
  bool may_be_empty(const Edge& edge, const ExpressionArena& arena) const;

  std::vector<Rule> rules_;
  std::vector<State> states_;
  size_t n_edges_ = 0;
  std::vector<TokenSet> token_sets_;
  std::vector<Capture> captures_;
  JsonOutput output_;
  std::vector<std::vector<uint32_t>> counter_lists_ = {{}, {0}};
  std::vector<Facts> facts_;
  RuleId start_ = 0;
};

}  // namespace tessera::text::grammar
