// The states of a grammar's parser after a text, made when a text first leads to them. A state is the set of all ways
// to read the text so far: each is a place inside a lexeme, with the calls of rules around it. Equal states are one,
// and states never change, so going back or trying another text costs nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/text/grammar/lexeme_states.h"
#include "tessera/text/grammar/rules.h"
#include "tessera/text/grammar/seen_values.h"

namespace tessera::text::grammar {

class ParserStates {
 public:
  using State = uint32_t;
  using Frame = uint32_t;            // a call of a rule that is in progress; kBottom: that of the start rule
  static constexpr State kDead = 0;  // no text of the grammar begins so
  static constexpr size_t kMaxItems = 1024;

  /// A place in a rule.
  struct Position {
    RuleState state;
    Frame frame;
    uint32_t counts;  // of a rule with one counter and without captures its value; else a place in records_
    auto operator<=>(const Position&) const = default;
  };
  /// A place inside the lexemes that begin at a position.
  struct Item {
    Position position;
    LexemeStates::State lexeme;
    uint32_t text = 0;  // so far of lexemes that may be captured, a place in texts_; otherwise 0
    auto operator<=>(const Item&) const = default;
  };

  /// Both must outlive this.
  ParserStates(const Rules& rules, LexemeStates& lexemes, ExpressionArena& arena);

  State start() const { return start_; }
  State next(State state, uint8_t byte);
  State next(State state, std::string_view text);
  /// The state after a token with this text; without one, it fits by its number only. ends_text: it fits only where its
  /// number is listed.
  State next_token(State state, int32_t token, std::string_view text, bool ends_text);

  /// Whether the text so far is one of the grammar's.
  bool is_complete(State state) const { return states_[state].is_complete; }

  /// Whether a byte or a token can follow.
  bool goes_on(State state) const { return !states_[state].items.empty() || !states_[state].at_tokens.empty(); }
  /// The bytes that can follow.
  ByteSet live_bytes(State state);

  /// The ways of a state: the tokens that fit it are those that fit one of its items, those of its token edges, and if
  /// it is complete those that end a text.
  std::span<const Item> items(State state) const { return states_[state].items; }
  State state_of(const Item& item) { return add({.items = {item}}); }
  /// The state after the ends of lexemes with these tags. It does not know the values of captured ones.
  State after_lexemes(const Position& position, std::span<const uint32_t> tags);
  bool has_token_edges(State state) const { return !states_[state].at_tokens.empty(); }
  /// Whether a lexeme that begins at a position may be captured.
  bool captures(const Position& position) const;
  /// Whether a state is inside of such a lexeme.
  bool has_text(State state) const {
    return std::ranges::any_of(states_[state].items, [](const Item& item) { return item.text != 0; });
  }
  /// The token sets of the edges that are open.
  std::vector<uint32_t> token_sets(State state) const;

  /// The states with the same ways as those of another parser of the same rules, in the same order.
  std::vector<State> copies_of(std::span<const State> states, ParserStates& other);

  /// Whether a state had more ways than the limit. Then it lacks some of them.
  bool overflowed() const { return overflowed_ || lexemes_->overflowed(); }
  size_t size() const { return states_.size() + records_.size() + texts_.size(); }

 private:
  // The place at which a call goes on when the rule ends. Calls at the same place of the text share a frame.
  struct Return {
    RuleState state;
    Frame frame;
    uint32_t counts;
    auto operator<=>(const Return&) const = default;
  };
  struct FrameData {
    std::vector<Return> returns;  // sorted
    uint32_t depth;
  };
  struct StateData {
    std::vector<Item> items;            // sorted
    std::vector<Position> at_tokens{};  // where an edge has tokens, sorted
    bool is_complete = false;           // the text so far is one of the grammar's
    bool operator==(const StateData&) const = default;
  };

  // Numbers of a call.
  struct Record {
    std::vector<uint32_t> counts{};  // by counter; those that are left out are 0
    std::vector<Expression> seen{};  // the texts of captured values, sorted
    auto operator<=>(const Record&) const = default;
  };
  struct Text {
    uint32_t before;  // the text without its last byte
    uint8_t byte;
  };

  // Positions that are reached without text.
  class Closure;

  State add(StateData data);
  Frame add_frame(std::vector<Return> returns);
  LexemeStates::State first_lexeme(const Position& position);
  void enter_lexeme(const Item& item, std::vector<Item>& items, Closure& closure);
  Expression lexeme_of(const Edge& edge, const Position& position);
  Position after_lexeme(const Edge& edge, const Position& position, uint32_t text);
  bool is_open(const Edge& edge, const Position& position) const;
  Position after(const Edge& edge, const Position& position);
  uint32_t count(const Position& position, uint32_t counter) const;
  bool has_records(RuleState state) const;
  uint32_t add_record(Record record);
  uint32_t add_text(uint32_t before, uint8_t byte);
  std::string text(uint32_t number) const;
  uint32_t copy_of_counts(RuleState state, uint32_t counts, const ParserStates& other);

  const Rules* rules_;
  LexemeStates* lexemes_;
  ExpressionArena* arena_;
  std::vector<StateData> states_;
  std::vector<FrameData> frames_;
  std::vector<Record> records_;  // the first is that of a call that begins
  std::map<Record, uint32_t> record_numbers_;
  std::vector<Text> texts_;                              // 1 is the empty text
  std::unordered_map<uint64_t, uint32_t> text_numbers_;  // by text before and byte
  SeenValues seen_values_;
  std::unordered_multimap<uint64_t, State> state_numbers_;  // by hash
  std::unordered_multimap<uint64_t, Frame> frame_numbers_;
  std::unordered_map<uint64_t, State> steps_;  // by state and byte
  std::map<std::pair<Position, std::vector<uint32_t>>, State> after_lexemes_;
  std::map<std::pair<RuleState, uint64_t>, LexemeStates::State> first_lexemes_;  // by a hash of the open edges
  State start_ = kDead;
  bool overflowed_ = false;
};

}  // namespace tessera::text::grammar
