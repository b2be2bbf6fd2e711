#include "tessera/text/grammar/lexeme_states.h"

#include <algorithm>
#include <bitset>
#include <span>
#include <unordered_set>

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
  live_bytes_.emplace_back();
  numbers_.emplace(expression, number);
  return number;
}

ByteSet LexemeStates::live_bytes(State state) {
  if (live_bytes_[state]) return *live_bytes_[state];
  if (rows_[state].classes == kNoRow) make_row(state);
  const ByteClasses classes = classes_[rows_[state].classes];
  std::bitset<256> leads_on;  // by class
  for (const uint8_t byte : one_of_each(classes)) leads_on.set(to_size(classes.of(byte)), next(state, byte) != kDead);
  ByteSet live;
  for (int byte = 0; byte < 256; ++byte)
    if (leads_on[to_size(classes.of(static_cast<uint8_t>(byte)))]) live.add(static_cast<uint8_t>(byte));
  live_bytes_[state] = live;
  return live;
}

// The targets are found when they are asked for: most texts take one way through a state.
void LexemeStates::make_row(State state) {
  ByteClasses classes;
  arena_->divide(expressions_[state], classes);
  const uint32_t place = class_places_.try_emplace(classes, static_cast<uint32_t>(classes_.size())).first->second;
  if (place == classes_.size()) classes_.push_back(classes);
  rows_[state] = {place, static_cast<uint32_t>(targets_.size())};
  targets_.insert(targets_.end(), to_size(classes.size()), kUnknown);
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

// Looks for a text of the language, short ones first.
bool LexemeStates::find_end(Expression root) {
  struct Step {
    Expression expression;
    size_t before;  // place of the step that led here
  };
  std::vector<Step> steps = {{root, 0}};
  std::unordered_set<Expression> seen = {root};
  for (size_t at = 0; at < steps.size(); ++at) {
    if (steps.size() > max_states_) {
      overflowed_ = true;
      return false;
    }
    const Expression expression = steps[at].expression;
    ByteClasses classes;
    arena_->divide(expression, classes);
    for (const uint8_t byte : one_of_each(classes)) {
      const Expression next = arena_->derivative(expression, byte);
      const auto life = known_life(next);
      if (life && *life) {
        for (size_t i = at; i != 0; i = steps[i].before) alive_[steps[i].expression] = true;
        return true;
      }
      if (!life && seen.insert(next).second) steps.push_back({next, at});
    }
  }
  for (const Step& step : steps) alive_[step.expression] = false;
  return false;
}

}  // namespace tessera::text::grammar
