#include "tessera/text/grammar/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

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
  void add_again(RuleState state) { open_.push_back(state); }
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
  find_texts();
  const auto without = std::ranges::find(facts_, false, &Facts::has_text);
  const bool is_fault = barren == BarrenRules::are_faults ? without != facts_.end() : !has_text(start_);
  if (is_fault)
    return std::unexpected(Fault{static_cast<RuleId>(without - facts_.begin()), "the rule has no finite text"});
  if (min_depth(start_) > kMaxDepth)
    return std::unexpected(Fault{start_, fmt::format("each text needs more than {} calls within calls", kMaxDepth)});
  remove_dead_ends();
  find_nullable(arena);
  find_empty_turns(arena);
  return rank_rules(arena);
}

// Reaches what follows an edge. Where a rule is a counted repetition, a minimum is reached by turns that end at its
// start.
void Rules::follow(RuleState from, const Edge& edge, Reached& reached, std::vector<bool>& has_turn) const {
  const RuleId rule = rule_of(from);
  const RuleState start = rules_[rule].start;
  const auto has_min = [](const Counter& counter) { return counter.min > 0; };
  if (edge.needs_min && from == start && !has_turn[rule] && std::ranges::any_of(rules_[rule].counters, has_min)) return;
  if (edge.target == start && !has_turn[rule]) {
    has_turn[rule] = true;
    reached.add_again(start);
  }
  reached.add(edge.target);
}

// The rules with a text whose calls are nested once, then those with a text whose calls are nested twice, and so on.
void Rules::find_texts() {
  std::vector<std::vector<std::pair<RuleState, const Edge*>>> callers(rules_.size());
  for (RuleState from = 0; from < states_.size(); ++from)
    for (const Edge& edge : states_[from].edges)
      if (edge.kind == Edge::Kind::call) callers[edge.value].emplace_back(from, &edge);
  Reached reached(states_.size());
  std::vector<bool> has_turn(rules_.size());
  std::vector<RuleId> found;
  for (const Rule& rule : rules_) reached.add(rule.start);
  for (uint32_t depth = 1; reached.has_open(); ++depth) {
    found.clear();
    while (reached.has_open()) {
      const RuleState state = reached.take();
      if (is_end(state)) found.push_back(rule_of(state));
      for (const Edge& edge : states_[state].edges)
        if (edge.kind != Edge::Kind::call || facts_[edge.value].has_text) follow(state, edge, reached, has_turn);
    }
    for (const RuleId rule : found) facts_[rule] = {.has_text = true, .min_depth = depth};
    for (const RuleId rule : found)
      for (const auto& [from, edge] : callers[rule])
        if (reached.contains(from)) follow(from, *edge, reached, has_turn);
  }
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

// A rule is nullable if its end can be reached without text.
void Rules::find_nullable(const ExpressionArena& arena) {
  std::vector<std::vector<std::pair<RuleState, const Edge*>>> callers(rules_.size());
  Reached reached(states_.size());
  std::vector<bool> has_turn(rules_.size());
  for (const Rule& rule : rules_) reached.add(rule.start);
  while (reached.has_open()) {
    const RuleState state = reached.take();
    for (const Edge& edge : states_[state].edges) {
      if (edge.kind == Edge::Kind::call) callers[edge.value].emplace_back(state, &edge);
      if (may_be_empty(edge, arena)) follow(state, edge, reached, has_turn);
    }
    if (!is_end(state) || facts_[rule_of(state)].is_nullable) continue;
    facts_[rule_of(state)].is_nullable = true;
    for (const auto& [from, edge] : callers[rule_of(state)]) follow(from, *edge, reached, has_turn);
  }
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
