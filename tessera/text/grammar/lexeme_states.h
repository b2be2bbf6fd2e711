// The states of expressions as an automaton: numbered when they are first reached, with a table of the next state by
// byte. State 0 is the one from which no text is accepted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/text/grammar/expression.h"

namespace tessera::text::grammar {

class LexemeStates {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;

  /// The arena must outlive this. max_states: with more of them, overflowed() is true and all that is new is dead.
  LexemeStates(ExpressionArena& arena, size_t max_states);
  /// The states of another for a copy of its arena.
  LexemeStates(ExpressionArena& arena, const LexemeStates& other, size_t max_states) : LexemeStates(other) {
    arena_ = &arena;
    max_states_ = max_states;
  }

  /// The state of an expression, kDead if it has no text.
  State state_of(Expression expression);

  /// The state of an expression that is known to have a text.
  State state_with_text(Expression expression) {
    alive_.emplace(expression, true);
    return state_of(expression);
  }

  State next(State state, uint8_t byte) {
    if (rows_[state].classes == kNoRow) {
      // Most states that a walk reaches end there, and need no row.
      if (!arena_->may_begin_with(expressions_[state], byte)) return kDead;
      make_row(state);
    }
    const Row& row = rows_[state];
    const size_t place = row.first_target + size_t{classes_[row.classes].class_of[byte]};
    return targets_[place] != kUnknown ? targets_[place] : find_target(state, byte, place);
  }

  Expression expression(State state) const { return expressions_[state]; }
  bool is_accepting(State state) const { return arena_->is_nullable(expressions_[state]); }
  /// The bytes that lead back to a state.
  ByteSet loop_bytes(State state);

  /// The tags of the lexemes that end at a state.
  const std::vector<uint32_t>& tags(State state) const { return tags_[state]; }
  /// The bytes that lead on from a state.
  ByteSet live_bytes(State state);
  bool goes_on(State state) {
    if (goes_on_[state] == Life::unknown) goes_on_[state] = find_next(state) ? Life::yes : Life::no;
    return goes_on_[state] == Life::yes;
  }

  /// A shortest text of an expression; nothing if it has none, or if the search takes too many states.
  std::optional<std::string> shortest_text(Expression expression);

  /// A number of bytes that complete a text from any state that can be reached; nothing if the search takes too long.
  std::optional<size_t> longest_completion(State state);

  size_t size() const { return expressions_.size(); }
  bool overflowed() const { return overflowed_ || arena_->overflowed(); }

 private:
  LexemeStates(const LexemeStates&) = default;

  // Bytes of one class lead to one state. Many states have the same classes.
  struct Classes {
    std::array<uint8_t, 256> class_of{};
    std::vector<uint8_t> first_bytes;  // by class
  };
  enum class Life : uint8_t { unknown, yes, no };
  // The next states of a state, by class of bytes.
  struct Row {
    uint32_t classes;  // place in classes_
    uint32_t first_target;
  };
  static constexpr uint32_t kNoRow = UINT32_MAX;
  static constexpr State kUnknown = UINT32_MAX;

  void make_row(State state);
  State find_target(State state, uint8_t byte, size_t place);
  std::optional<bool> known_life(Expression expression) const;
  bool is_alive(Expression root);
  bool find_end(Expression root);
  bool find_next(State state);
  Classes classes_of(Expression expression);
  template <class F>
  ByteSet bytes_with(State state, F is_wanted);

  ExpressionArena* arena_;
  size_t max_states_;
  bool overflowed_ = false;
  std::vector<Expression> expressions_;
  std::vector<Row> rows_;
  std::vector<Classes> classes_;
  std::map<std::array<uint8_t, 256>, uint32_t> class_places_;
  std::vector<State> targets_;
  std::vector<std::vector<uint32_t>> tags_;
  std::vector<Life> goes_on_;
  std::vector<std::optional<ByteSet>> live_bytes_;
  std::unordered_map<Expression, State> numbers_;
  std::unordered_map<Expression, bool> alive_;  // where that is not plain
  std::unordered_map<State, std::optional<size_t>> completions_;
};

}  // namespace tessera::text::grammar
