#include "tessera/text/grammar/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tessera/base/index.h"

namespace tessera::text::grammar {

// States that are reached, each to be visited once.
class Rules::Reached {
 public:
  explicit Reached(size_t n_states) : is_reached_(n_states) {}

  void add(RuleState state) {
    if (is_reached_[state]) return;
    is_reached_[state] = true;
    open_.push_back(state);
  }
  bool contains(RuleState state) const { return is_reached_[state]; }
  bool has_open() const { return !open_.empty(); }
  RuleState take() {
    const RuleState state = open_.back();
    open_.pop_back();
    return state;
  }

 private:
  std::vector<bool> is_reached_;
  std::vector<RuleState> open_;
};

RuleId Rules::add_rule(std::string name) {
  const auto id = static_cast<RuleId>(rules_.size());
  rules_.push_back({.name = std::move(name)});
  rules_.back().start = add_state(id);
  rules_.back().end = add_state(id);
  return id;
}

RuleState Rules::add_state(RuleId rule) {
  states_.push_back({.rule = rule});
  return static_cast<RuleState>(states_.size() - 1);
}

void Rules::add_capture(RuleState from, const Capture& capture, Edge edge, ExpressionArena& arena) {
  captures_.push_back(capture);
  edge.kind = Edge::Kind::lexeme;
  edge.value = arena.concat(std::vector{capture.before, capture.inside, capture.after});
  edge.capture = static_cast<uint32_t>(captures_.size());
  rules_[rule_of(from)].has_captures = true;
  add_edge(from, edge);
}

void Rules::change_lexemes(FunctionRef<Expression(Expression)> changed, ExpressionArena& arena) {
  std::vector<Expression> captured;
  for (Capture& capture : captures_) {
    capture.before = changed(capture.before);
    capture.inside = changed(capture.inside);
    capture.after = changed(capture.after);
    captured.push_back(arena.concat(std::vector{capture.before, capture.inside, capture.after}));
  }
  for (State& state : states_)
    for (Edge& edge : state.edges)
      if (edge.kind == Edge::Kind::lexeme)
        edge.value = edge.capture != 0 ? captured[edge.capture - 1] : changed(edge.value);
}

uint32_t Rules::add_token_set(TokenSet set) {
  token_sets_.push_back(std::move(set));
  return static_cast<uint32_t>(token_sets_.size() - 1);
}

uint32_t Rules::add_counter(RuleId rule, const Counter& counter) {
  rules_[rule].counters.push_back(counter);
  return static_cast<uint32_t>(rules_[rule].counters.size() - 1);
}

uint32_t Rules::add_counter_list(std::vector<uint32_t> counters) {
  const auto known = std::ranges::find(counter_lists_, counters);
  if (known != counter_lists_.end()) return static_cast<uint32_t>(known - counter_lists_.begin());
  counter_lists_.push_back(std::move(counters));
  return static_cast<uint32_t>(counter_lists_.size() - 1);
}

std::expected<void, Rules::Fault> Rules::finish(const ExpressionArena& arena, BarrenRules barren) {
  facts_.assign(rules_.size(), {});
  const auto has_text = [](const Edge& edge) {
    return edge.kind == Edge::Kind::tokens || edge.value != ExpressionArena::kNothing;
  };
  const std::vector<uint32_t> depths_of_text = depths(has_text);
  for (RuleId rule = 0; rule < rules_.size(); ++rule)
    facts_[rule] = {.has_text = depths_of_text[rule] != kUnbounded, .min_depth = depths_of_text[rule]};
  const auto without = std::ranges::find(facts_, false, &Facts::has_text);
  const bool is_fault = barren == BarrenRules::are_faults ? without != facts_.end() : !facts_[start_].has_text;
  if (is_fault)
    return std::unexpected(Fault{static_cast<RuleId>(without - facts_.begin()), "the rule has no finite text"});
  if (min_depth(start_) > kMaxDepth)
    return std::unexpected(Fault{start_, fmt::format("each text needs more than {} calls within calls", kMaxDepth)});
  remove_dead_ends();
  const auto is_empty_step = [&](const Edge& edge) {
    return edge.kind == Edge::Kind::lexeme && arena.is_nullable(edge.value);
  };
  const std::vector<uint32_t> depths_of_nothing = depths(is_empty_step);
  for (RuleId rule = 0; rule < rules_.size(); ++rule) facts_[rule].is_nullable = depths_of_nothing[rule] != kUnbounded;
  find_empty_turns(arena);
  return rank_rules(arena);
}

// Whether the counters of a rule can reach their minima by the edges that are known to lead to its end.
class Rules::Minima {
 public:
  explicit Minima(std::span<const Counter> counters) : counters_(counters), most_(counters.size()) {
    n_unmet_ = to_size(std::ranges::count_if(counters, [](const Counter& counter) { return counter.min > 0; }));
  }
  bool are_met() const { return n_unmet_ == 0; }

  // Takes an edge with these counters. A counter that is apart bounds how often the first one can grow beside it.
  void add(std::span<const uint32_t> list) {
    if (are_met()) return;
    uint32_t beside = kUnbounded;
    for (const uint32_t place : list)
      if (place != 0 && counters_[place].is_apart) beside = most_[place] == 0 ? counters_[place].max : 0;
    for (const uint32_t place : list) {
      const Counter& counter = counters_[place];
      const bool was_met = most_[place] >= counter.min;
      most_[place] += std::min(place == 0 ? beside : counter.max, kUnbounded - most_[place]);
      if (!was_met && most_[place] >= counter.min) --n_unmet_;
    }
  }

 private:
  std::span<const Counter> counters_;
  std::vector<uint32_t> most_;  // by counter: a bound of its value
  size_t n_unmet_;
};

// For each rule the number of calls within calls that it needs to get from its start to its end by calls and by those
// other edges that is_step takes; kUnbounded if it cannot.
template <typename IsStep>
std::vector<uint32_t> Rules::depths(const IsStep& is_step) const {
  using Source = std::pair<RuleState, const Edge*>;
  std::vector<std::vector<Source>> sources(states_.size()), callers(rules_.size());
  for (RuleState from = 0; from < states_.size(); ++from)
    for (const Edge& edge : states_[from].edges) {
      sources[edge.target].emplace_back(from, &edge);
      if (edge.kind == Edge::Kind::call) callers[edge.value].emplace_back(from, &edge);
    }
  std::vector<uint32_t> depths(rules_.size(), kUnbounded);
  std::vector<Minima> minima;
  Reached before_end(states_.size());
  for (const Rule& rule : rules_) {
    minima.emplace_back(rule.counters);
    before_end.add(rule.end);
  }
  std::vector<RuleId> found;
  const auto take = [&](const Source& source) {
    const auto& [from, edge] = source;
    const RuleId rule = rule_of(from);
    minima[rule].add(counter_list(edge->adds));
    before_end.add(from);
    if (before_end.contains(rules_[rule].start) && minima[rule].are_met()) found.push_back(rule);
  };
  for (uint32_t depth = 1; before_end.has_open(); ++depth) {
    while (before_end.has_open())
      for (const Source& source : sources[before_end.take()]) {
        const Edge& edge = *source.second;
        if (edge.kind == Edge::Kind::call ? depths[edge.value] != kUnbounded : is_step(edge)) take(source);
      }
    std::vector<RuleId> of_depth;
    for (const RuleId rule : std::exchange(found, {}))
      if (depths[rule] == kUnbounded) {
        depths[rule] = depth;
        of_depth.push_back(rule);
      }
    for (const RuleId rule : of_depth)
      for (const Source& caller : callers[rule])
        if (before_end.contains(caller.second->target)) take(caller);
  }
  return depths;
}

void Rules::remove_dead_ends() {
  std::vector<std::vector<RuleState>> sources(states_.size());
  for (RuleState from = 0; from < states_.size(); ++from) {
    std::erase_if(states_[from].edges, [&](const Edge& edge) {
      const bool is_empty_lexeme = edge.kind == Edge::Kind::lexeme && edge.value == ExpressionArena::kNothing;
      return is_empty_lexeme || (edge.kind == Edge::Kind::call && !has_text(edge.value));
    });
    for (const Edge& edge : states_[from].edges) sources[edge.target].push_back(from);
  }
  Reached before_end(states_.size());
  for (const Rule& rule : rules_) before_end.add(rule.end);
  while (before_end.has_open())
    for (const RuleState from : sources[before_end.take()]) before_end.add(from);
  for (State& state : states_)
    std::erase_if(state.edges, [&](const Edge& edge) { return !before_end.contains(edge.target); });
}

bool Rules::may_be_empty(const Edge& edge, const ExpressionArena& arena) const {
  if (edge.kind == Edge::Kind::lexeme) return arena.is_nullable(edge.value);
  return edge.kind == Edge::Kind::call && facts_[edge.value].is_nullable;
}

// The states of the rule that a state reaches without text, itself first.
std::vector<RuleState> Rules::reached_empty(RuleState from, const ExpressionArena& arena) const {
  std::vector<RuleState> reached = {from};
  std::unordered_set<RuleState> seen = {from};
  for (size_t i = 0; i < reached.size(); ++i)
    for (const Edge& edge : states_[reached[i]].edges)
      if (may_be_empty(edge, arena) && seen.insert(edge.target).second) reached.push_back(edge.target);
  return reached;
}

void Rules::find_empty_turns(const ExpressionArena& arena) {
  for (RuleState from = 0; from < states_.size(); ++from)
    for (const Edge& edge : states_[from].edges) {
      if (edge.adds == 0 || !may_be_empty(edge, arena)) continue;
      const std::vector<RuleState> reached = reached_empty(edge.target, arena);
      if (std::ranges::find(reached, from) == reached.end()) continue;
      facts_[rule_of(from)].has_empty_turns = true;
      for (const uint32_t counter : counter_list(edge.adds)) rules_[rule_of(from)].counters[counter].min = 0;
    }
}

// The rules that a rule calls before any text.
std::vector<RuleId> Rules::first_calls(RuleId rule, const ExpressionArena& arena) const {
  std::vector<RuleId> found;
  for (const RuleState state : reached_empty(rules_[rule].start, arena))
    for (const Edge& edge : states_[state].edges)
      if (edge.kind == Edge::Kind::call) found.push_back(edge.value);
  return found;
}

// Depth first, without recursion: a rule on the path that is met again begins with itself.
std::expected<void, Rules::Fault> Rules::rank_rules(const ExpressionArena& arena) {
  enum class Visit : uint8_t { none, open, done };
  struct Step {
    RuleId rule;
    std::vector<RuleId> next;
  };
  std::vector<Visit> visits(rules_.size());
  std::vector<Step> path;
  auto rank = static_cast<uint32_t>(rules_.size());
  for (RuleId first = 0; first < rules_.size(); ++first) {
    if (visits[first] != Visit::none) continue;
    visits[first] = Visit::open;
    path.push_back({first, first_calls(first, arena)});
    while (!path.empty()) {
      Step& top = path.back();
      if (top.next.empty()) {
        visits[top.rule] = Visit::done;
        facts_[top.rule].rank = --rank;
        path.pop_back();
        continue;
      }
      const RuleId next = top.next.back();
      top.next.pop_back();
      if (visits[next] == Visit::open) {
        const auto begin = std::ranges::find(path, next, &Step::rule);
        std::string cycle;
        for (auto step = begin; step != path.end(); ++step) cycle += rules_[step->rule].name + " > ";
        return std::unexpected(Fault{next, "left recursion: " + cycle + rules_[next].name});
      }
      if (visits[next] == Visit::done) continue;
      visits[next] = Visit::open;
      path.push_back({next, first_calls(next, arena)});
    }
  }
  return {};
}

}  // namespace tessera::text::grammar
