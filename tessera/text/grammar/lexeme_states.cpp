#include "tessera/text/grammar/lexeme_states.h"

#include <algorithm>
#include <bitset>
#include <span>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

// One byte of each class, in the order of the bytes.
std::vector<uint8_t> one_of_each(const ByteClasses& classes) {
  std::vector<uint8_t> bytes;
  std::bitset<256> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const auto i = to_size(classes.of(static_cast<uint8_t>(byte)));
    if (!seen[i]) bytes.push_back(static_cast<uint8_t>(byte));
    seen.set(i);
  }
  return bytes;
}

}  // namespace

LexemeStates::LexemeStates(ExpressionArena& arena, size_t max_states) : arena_(&arena), max_states_(max_states) {
  expressions_.push_back(ExpressionArena::kNothing);
  rows_.push_back({0, 0});
  classes_.emplace_back();
  class_places_.emplace(ByteClasses(), 0);
  targets_.push_back(kDead);
  tags_.emplace_back();
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
  numbers_.emplace(expression, number);
  return number;
}

bool LexemeStates::goes_on(State state) {
  if (rows_[state].classes == kNoRow) make_row(state);
  const Row& row = rows_[state];
  const auto targets = std::span(targets_).subspan(row.first_target, to_size(classes_[row.classes].size()));
  return std::ranges::any_of(targets, [](State next) { return next != kDead; });
}

void LexemeStates::make_row(State state) {
  ByteClasses classes;
  arena_->divide(expressions_[state], classes);
  std::vector<State> targets(to_size(classes.size()));
  for (const uint8_t byte : one_of_each(classes))
    targets[to_size(classes.of(byte))] = state_of(arena_->derivative(expressions_[state], byte));
  const uint32_t place = class_places_.try_emplace(classes, static_cast<uint32_t>(classes_.size())).first->second;
  if (place == classes_.size()) classes_.push_back(classes);
  rows_[state] = {place, static_cast<uint32_t>(targets_.size())};
  targets_.insert(targets_.end(), targets.begin(), targets.end());
}

bool LexemeStates::is_alive(Expression expression) {
  if (arena_->is_plain(expression)) return expression != ExpressionArena::kNothing;
  const auto found = alive_.find(expression);
  return found != alive_.end() ? found->second : find_end(expression);
}

// Looks for a text of the language, the first byte of each class first.
bool LexemeStates::find_end(Expression expression) {
  struct Step {
    Expression expression;
    std::vector<Expression> next;
  };
  std::vector<Step> path;
  std::vector<Expression> tried;
  std::unordered_map<Expression, bool> seen;
  bool is_found = false;
  const auto enter = [&](Expression e) {
    if (arena_->is_nullable(e)) return true;
    if (arena_->is_plain(e)) return e != ExpressionArena::kNothing;
    const auto known = alive_.find(e);
    if (known != alive_.end()) return known->second;
    if (!seen.try_emplace(e, true).second) return false;
    tried.push_back(e);
    ByteClasses classes;
    arena_->divide(e, classes);
    Step step{e, {}};
    for (const uint8_t byte : one_of_each(classes)) step.next.push_back(arena_->derivative(e, byte));
    std::ranges::reverse(step.next);
    path.push_back(std::move(step));
    return false;
  };
  is_found = enter(expression);
  while (!is_found && !path.empty()) {
    if (tried.size() > max_states_) {
      overflowed_ = true;
      return false;
    }
    if (path.back().next.empty()) {
      path.pop_back();
      continue;
    }
    const Expression next = path.back().next.back();
    path.back().next.pop_back();
    is_found = enter(next);
  }
  // Without an end, all that was tried has none. Otherwise only the path is known to reach it.
  if (is_found) {
    for (const Step& step : path) alive_[step.expression] = true;
  } else {
    for (const Expression e : tried) alive_[e] = false;
  }
  alive_[expression] = is_found;
  return is_found;
}

}  // namespace tessera::text::grammar
