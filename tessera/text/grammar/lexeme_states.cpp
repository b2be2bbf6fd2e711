#include "tessera/text/grammar/lexeme_states.h"

#include <algorithm>
#include <bitset>
#include <span>
#include <string_view>
#include <unordered_set>

#include "tessera/base/index.h"

namespace tessera::text::grammar {

LexemeStates::LexemeStates(ExpressionArena& arena, size_t max_states) : arena_(&arena), max_states_(max_states) {
  expressions_.push_back(ExpressionArena::kNothing);
  rows_.push_back({0, 0});
  classes_.emplace_back();
  classes_.back().first_bytes.push_back(0);
  class_places_.emplace(classes_.back().class_of, 0);
  targets_.push_back(kDead);
  tags_.emplace_back();
  goes_on_.push_back(Life::no);
  live_bytes_.emplace_back(ByteSet());
  numbers_.emplace(ExpressionArena::kNothing, kDead);
}

LexemeStates::State LexemeStates::state_of(Expression expression) {
  const auto found = numbers_.find(expression);
  if (found != numbers_.end()) return found->second;
  if (!is_alive(expression)) return kDead;
  if (size() >= max_states_) {
    overflowed_ = true;
    return kDead;
  }
  const auto number = static_cast<State>(size());
  expressions_.push_back(expression);
  rows_.push_back({kNoRow, 0});
  tags_.push_back(arena_->tags(expression));
  goes_on_.push_back(Life::unknown);
  live_bytes_.emplace_back();
  numbers_.emplace(expression, number);
  return number;
}

LexemeStates::Classes LexemeStates::classes_of(Expression expression) {
  ByteDivision division;
  arena_->divide(expression, division);
  Classes classes;
  for (const ByteSet& set : division.classes()) {
    const auto number = static_cast<uint8_t>(classes.first_bytes.size());
    classes.first_bytes.push_back(set.first());
    set.for_each([&](uint8_t byte) { classes.class_of[byte] = number; });
  }
  return classes;
}

template <class F>
ByteSet LexemeStates::bytes_with(State state, F is_wanted) {
  if (rows_[state].classes == kNoRow) make_row(state);
  const Classes classes = classes_[rows_[state].classes];  // a copy: new states may move the others
  std::bitset<256> has;                                    // by class
  for (size_t i = 0; i < classes.first_bytes.size(); ++i) has.set(i, is_wanted(next(state, classes.first_bytes[i])));
  ByteSet bytes;
  for (int byte = 0; byte < 256; ++byte)
    if (has[classes.class_of[to_size(byte)]]) bytes.add(static_cast<uint8_t>(byte));
  return bytes;
}

ByteSet LexemeStates::live_bytes(State state) {
  if (!live_bytes_[state]) {
    const Expression expression = expressions_[state];
    const ByteSet live = arena_->is_plain(expression) ? arena_->first_bytes(expression)
                                                      : bytes_with(state, [](State target) { return target != kDead; });
    live_bytes_[state] = live;
  }
  return *live_bytes_[state];
}

ByteSet LexemeStates::loop_bytes(State state) {
  if (!arena_->has_loop(expressions_[state])) return {};
  return bytes_with(state, [&](State target) { return target == state; });
}

bool LexemeStates::find_next(State state) {
  if (arena_->is_plain(expressions_[state])) return arena_->has_bytes(expressions_[state]);
  if (rows_[state].classes == kNoRow) make_row(state);
  const std::vector<uint8_t> bytes = classes_[rows_[state].classes].first_bytes;
  return std::ranges::any_of(bytes, [&](uint8_t byte) { return next(state, byte) != kDead; });
}

// The targets are found when they are asked for: most texts take one way through a state.
void LexemeStates::make_row(State state) {
  Classes classes = classes_of(expressions_[state]);
  const size_t n_classes = classes.first_bytes.size();
  const auto number = static_cast<uint32_t>(classes_.size());
  const uint32_t place = class_places_.try_emplace(classes.class_of, number).first->second;
  if (place == number) classes_.push_back(std::move(classes));
  rows_[state] = {place, static_cast<uint32_t>(targets_.size())};
  targets_.insert(targets_.end(), n_classes, kUnknown);
}

LexemeStates::State LexemeStates::find_target(State state, uint8_t byte, size_t place) {
  const State target = state_of(arena_->derivative(expressions_[state], byte));
  targets_[place] = target;
  return target;
}

std::optional<bool> LexemeStates::known_life(Expression expression) const {
  if (arena_->is_nullable(expression)) return true;
  if (arena_->is_plain(expression)) return expression != ExpressionArena::kNothing;
  const auto found = alive_.find(expression);
  return found == alive_.end() ? std::nullopt : std::optional(found->second);
}

// Sequences and alternatives follow from their parts. The others need a search.
bool LexemeStates::is_alive(Expression root) {
  std::vector<Expression> open = {root};
  while (!open.empty()) {
    const Expression top = open.back();
    if (known_life(top)) {
      open.pop_back();
      continue;
    }
    const ExpressionArena::Form form = arena_->form(top);
    if (form == ExpressionArena::Form::other) {
      alive_[top] = find_end(top);
      continue;
    }
    size_t n_alive = 0;
    Expression unknown = ExpressionArena::kNothing;
    const std::span<const Expression> parts = arena_->parts(top);
    for (const Expression part : parts) {
      const auto life = known_life(part);
      if (!life) unknown = part;
      if (life && *life) ++n_alive;
    }
    const bool needs_all = form == ExpressionArena::Form::sequence;
    if (!needs_all && n_alive > 0) {
      alive_[top] = true;
    } else if (unknown != ExpressionArena::kNothing) {
      open.push_back(unknown);
    } else {
      alive_[top] = needs_all ? n_alive == parts.size() : n_alive > 0;
    }
  }
  return *known_life(root);
}

// Looks for a text of the language.
bool LexemeStates::find_end(Expression root) {
  // Mostly one of these leads to a language that is known: names that are excluded rarely begin with them all, and
  // bounds of numbers rarely exclude all of these.
  for (const std::string_view probe : {"~", "z", "0", "10000000", "5", "-1"}) {
    Expression next = root;
    for (size_t i = 0; i < probe.size() && next != ExpressionArena::kNothing; ++i) {
      next = arena_->derivative(next, static_cast<uint8_t>(probe[i]));
      if (known_life(next).value_or(false)) return true;
    }
  }
  struct Step {
    Expression expression;
    size_t before;  // place of the step that led here
    bool is_taken = false;
  };
  std::vector<Step> steps = {{root, 0}};
  std::unordered_set<Expression> seen = {root};
  // A search for short texts and one into the depth take turns. So an end that is near is found, and so is that of a
  // long text.
  size_t nearest = 0;
  std::vector<size_t> deep = {0};
  for (bool is_deep = true;; is_deep = !is_deep) {
    while (nearest < steps.size() && steps[nearest].is_taken) ++nearest;
    if (nearest == steps.size()) break;
    while (!deep.empty() && steps[deep.back()].is_taken) deep.pop_back();
    if (steps.size() > max_states_) {
      overflowed_ = true;
      return false;
    }
    const size_t at = is_deep && !deep.empty() ? deep.back() : nearest;
    steps[at].is_taken = true;
    const Expression expression = steps[at].expression;
    const std::vector<uint8_t> bytes = classes_of(expression).first_bytes;
    for (const uint8_t byte : bytes) {
      const Expression next = arena_->derivative(expression, byte);
      const auto life = known_life(next);
      if (life && *life) {
        for (size_t i = at; i != 0; i = steps[i].before) alive_[steps[i].expression] = true;
        return true;
      }
      if (life || !seen.insert(next).second) continue;
      if (is_deep || deep.empty()) deep.push_back(steps.size());
      steps.push_back({next, at});
    }
  }
  for (const Step& step : steps) alive_[step.expression] = false;
  return false;
}

std::optional<std::string> LexemeStates::shortest_text(Expression expression) {
  struct Step {
    State state;
    size_t before;
    uint8_t byte;
  };
  std::vector<Step> steps = {{state_of(expression), 0, 0}};
  std::unordered_set<State> seen = {steps[0].state};
  if (steps[0].state == kDead) return std::nullopt;
  for (size_t at = 0; at < steps.size() && steps.size() < max_states_; ++at) {
    const State state = steps[at].state;
    if (is_accepting(state)) {
      std::string reversed;
      for (size_t i = at; i != 0; i = steps[i].before) reversed += static_cast<char>(steps[i].byte);
      return std::string(reversed.rbegin(), reversed.rend());
    }
    if (rows_[state].classes == kNoRow) make_row(state);
    const std::vector<uint8_t> bytes = classes_[rows_[state].classes].first_bytes;
    for (const uint8_t byte : bytes) {
      const State target = next(state, byte);
      if (target != kDead && seen.insert(target).second) steps.push_back({target, at, byte});
    }
  }
  return std::nullopt;
}

std::optional<size_t> LexemeStates::longest_completion(State root) {
  constexpr size_t kMaxReached = 2000;
  // The search may not use up what the masks need.
  const size_t max_size = std::max(size(), max_states_ / 2);
  const uint64_t min_steps = arena_->n_steps_left() / 2;
  const auto known = completions_.find(root);
  if (known != completions_.end()) return known->second;
  completions_[root] = std::nullopt;
  std::vector<State> reached = {root};
  std::unordered_map<State, std::vector<State>> sources = {{root, {}}};
  for (size_t i = 0; i < reached.size(); ++i) {
    if (reached.size() > kMaxReached || size() > max_size || arena_->n_steps_left() < min_steps) return std::nullopt;
    if (rows_[reached[i]].classes == kNoRow) make_row(reached[i]);
    const std::vector<uint8_t> bytes = classes_[rows_[reached[i]].classes].first_bytes;
    for (const uint8_t byte : bytes) {
      const State target = next(reached[i], byte);
      if (target == kDead) continue;
      if (!sources.contains(target)) reached.push_back(target);
      sources[target].push_back(reached[i]);
    }
  }
  // From the ends backwards: the last states that are found are the farthest from an end.
  std::unordered_map<State, size_t> lengths;
  std::vector<State> found;
  for (const State state : reached)
    if (is_accepting(state) && lengths.emplace(state, 0).second) found.push_back(state);
  for (size_t i = 0; i < found.size(); ++i)
    for (const State source : sources.at(found[i]))
      if (lengths.emplace(source, lengths.at(found[i]) + 1).second) found.push_back(source);
  if (overflowed()) return std::nullopt;
  for (const State state : reached) completions_.try_emplace(state, lengths.at(found.back()));
  return completions_[root] = lengths.at(found.back());
}

}  // namespace tessera::text::grammar
