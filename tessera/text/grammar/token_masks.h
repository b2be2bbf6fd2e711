// The tokens that may follow a text of a grammar, by the state of the parser.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "tessera/text/grammar/mask_vocab.h"
#include "tessera/text/grammar/parser_states.h"

namespace tessera::text::grammar {

class TokenMasks {
 public:
  /// All must outlive this.
  TokenMasks(const Rules& rules, ExpressionArena& arena, LexemeStates& lexemes, ParserStates& states,
             const MaskVocab& vocab)
      : rules_(&rules), arena_(&arena), lexemes_(&lexemes), states_(&states), vocab_(&vocab) {}

  /// The tokens after which a text of the grammar can still come, and those that end a text where it may end. Valid
  /// until the next call.
  const TokenRow& of(ParserStates::State state);

  /// Whether the tokens of a lexeme of the state are not known yet.
  bool needs_search(ParserStates::State state) const;

  /// Memory of the sets of tokens that are kept. When it is more than this, they are dropped and made anew.
  static constexpr size_t kMaxBytes = size_t{32} << 20;
  size_t n_bytes() const { return n_bytes_; }

 private:
  using State = ParserStates::State;

  // The tokens that fit a state of a lexeme, with the numbers that its tags have here.
  struct Known {
    std::shared_ptr<const LexemeTokens> tokens;
    std::optional<LexemeTokens::Base> base;
    std::vector<uint32_t> tags;
  };

  // Tokens that fit a state. Those that read a captured value and then part of another one depend on the text of the
  // first, which a row does not know.
  struct Row {
    TokenRow tokens;
    std::vector<int32_t> to_try{};
  };

  bool is_item(State state) const;
  std::vector<State> needed_for(State state);
  Row compute(State state);
  Row of_item(const ParserStates::Item& item);
  State base_state(const ParserStates::Item& item);
  const Known& tokens_of(LexemeStates::State lexeme);
  void add_exits(const Known& known, const ParserStates::Position& position, Row& row);
  void walk_rests(const VocabTree& rests, State state, std::vector<int32_t>& found, std::vector<int32_t>* to_try);
  const TokenRow& of_set(uint32_t number);

  const Rules* rules_;
  ExpressionArena* arena_;
  LexemeStates* lexemes_;
  ParserStates* states_;
  const MaskVocab* vocab_;
  std::unordered_map<State, Row> rows_;
  std::unordered_map<LexemeStates::State, Known> known_;
  std::unordered_map<uint32_t, TokenRow> sets_;  // of the rules
  size_t n_bytes_ = 0;                           // of all these
};

}  // namespace tessera::text::grammar
