// The states of a grammar's parser after a text, made when a text first leads to them. A state is the set of all ways
// to read the text so far: each is a place inside a lexeme, with the calls of rules around it. Equal states are one,
// and states never change, so going back or trying another text costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/text/grammar/lexeme_states.h"
#include "tessera/text/grammar/rules.h"

namespace tessera::text::grammar {

class ParserStates {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;  // no text of the grammar begins so
  static constexpr size_t kMaxItems = 1024;
  static constexpr uint32_t kMaxDepth = 512;

  /// Both must outlive this.
  ParserStates(const Rules& rules, LexemeStates& lexemes, ExpressionArena& arena);

  State start() const { return start_; }
  State next(State state, uint8_t byte);
  State next(State state, std::string_view text);
  /// The state after a token of the grammar.
  State next_token(State state, int32_t token);

  /// Whether the text so far is one of the grammar's.
  bool is_complete(State state) const { return states_[state].is_complete; }

  /// Whether a state had more ways than the limit. Then it lacks some of them.
  bool overflowed() const { return overflowed_ || lexemes_->overflowed(); }
  size_t size() const { return states_.size(); }

 private:
  using Frame = uint32_t;  // kBottom: the call of the start rule

  // A call of a rule that is in progress: where it goes on when the rule ends. Calls at the same place of the text
  // share a frame.
  struct Return {
    RuleState state;
    Frame frame;
    uint32_t count;
    auto operator<=>(const Return&) const = default;
  };
  struct FrameData {
    std::vector<Return> returns;  // sorted
    uint32_t depth;
  };
  // A place in a rule.
  struct Position {
    RuleState state;
    Frame frame;
    uint32_t count;  // of the rule's edges that count, no higher than it matters
    auto operator<=>(const Position&) const = default;
  };
  // A place inside the lexemes that begin at a position.
  struct Item {
    Position position;
    LexemeStates::State lexeme;
    auto operator<=>(const Item&) const = default;
  };
  struct StateData {
    std::vector<Item> items;          // sorted
    std::vector<Position> at_tokens;  // where an edge has tokens, sorted
    bool is_complete = false;
    bool operator==(const StateData&) const = default;
  };

  // Positions that are reached without text.
  class Closure;

  State add(StateData data);
  Frame add_frame(std::vector<Return> returns);
  LexemeStates::State first_lexeme(const Position& position);
  void enter_lexeme(const Position& position, LexemeStates::State lexeme, std::vector<Item>& items, Closure& closure);
  bool is_open(const Edge& edge, const Position& position) const;
  Position after(const Edge& edge, const Position& position) const;

  const Rules* rules_;
  LexemeStates* lexemes_;
  ExpressionArena* arena_;
  std::vector<StateData> states_;
  std::vector<FrameData> frames_;
  std::unordered_multimap<uint64_t, State> state_numbers_;  // by hash
  std::unordered_multimap<uint64_t, Frame> frame_numbers_;
  std::unordered_map<uint64_t, State> steps_;                                    // by state and byte
  std::map<std::pair<RuleState, uint64_t>, LexemeStates::State> first_lexemes_;  // by a hash of the open edges
  State start_ = kDead;
  bool overflowed_ = false;
};

}  // namespace tessera::text::grammar
