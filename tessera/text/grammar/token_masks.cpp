#include "tessera/text/grammar/token_masks.h"

#include <algorithm>
#include <iterator>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

// Larger lexemes are hardly ever the same in two grammars.
constexpr size_t kMaxSharedStructure = 4096;

}  // namespace

const TokenRow& TokenMasks::of(State state) {
  if (n_bytes_ > kMaxBytes) {
    rows_.clear();
    known_.clear();
    sets_.clear();
    n_bytes_ = 0;
  }
  // States need the rows of others. These chains are short: a base has at most two bases below it.
  std::vector<State> open = {state};
  while (!open.empty()) {
    const State top = open.back();
    const size_t n_open = open.size();
    if (!rows_.contains(top))
      for (const State other : needed_for(top))
        if (!rows_.contains(other)) open.push_back(other);
    if (open.size() > n_open) continue;
    open.pop_back();
    if (rows_.contains(top)) continue;
    const Row& row = rows_.emplace(top, compute(top)).first->second;
    n_bytes_ += sizeof(row) + row.tokens.n_bytes() + row.to_try.capacity() * sizeof(int32_t);
  }
  return rows_.at(state).tokens;
}

bool TokenMasks::needs_search(State state) const {
  return !rows_.contains(state) && std::ranges::any_of(states_->items(state), [&](const ParserStates::Item& item) {
    return !known_.contains(item.lexeme);
  });
}

// A state with one item and nothing else has the row of the item.
bool TokenMasks::is_item(State state) const {
  return states_->items(state).size() == 1 && !states_->has_token_edges(state) && !states_->is_complete(state);
}

std::vector<TokenMasks::State> TokenMasks::needed_for(State state) {
  const std::vector<ParserStates::Item> items(states_->items(state).begin(), states_->items(state).end());
  std::vector<State> needed;
  if (!is_item(state)) {
    for (const ParserStates::Item& item : items) needed.push_back(states_->state_of(item));
  } else if (items[0].text != 0) {
    needed.push_back(states_->state_of({items[0].position, items[0].lexeme}));
  } else if (tokens_of(items[0].lexeme).base) {
    needed.push_back(base_state(items[0]));
  }
  return needed;
}

TokenMasks::State TokenMasks::base_state(const ParserStates::Item& item) {
  return states_->state_of({item.position, tokens_of(item.lexeme).base->state});
}

TokenMasks::Row TokenMasks::compute(State state) {
  if (is_item(state)) return of_item(ParserStates::Item(states_->items(state)[0]));
  Row row{TokenRow(vocab_->n_tokens())};
  for (const State item : needed_for(state)) row.tokens.add(rows_.at(item).tokens);
  for (const uint32_t set : states_->token_sets(state)) row.tokens.add(of_set(set));
  if (states_->is_complete(state)) row.tokens.add(vocab_->end_tokens());
  return row;
}

TokenMasks::Row TokenMasks::of_item(const ParserStates::Item& item) {
  if (item.text != 0) {
    const State state = states_->state_of(item);
    Row row = rows_.at(states_->state_of({item.position, item.lexeme}));
    const auto does_not_fit = [&](int32_t id) {
      return states_->next(state, vocab_->token(id).text) == ParserStates::kDead;
    };
    std::erase_if(row.to_try, does_not_fit);
    row.tokens.add(row.to_try);
    row.to_try.clear();
    return row;
  }
  const Known& known = tokens_of(item.lexeme);
  Row row{TokenRow(vocab_->n_tokens())};
  if (known.base) {
    row = rows_.at(base_state(item));
    row.tokens.remove(known.tokens->removed());
    std::erase_if(row.to_try, [&](int32_t id) {
      return std::ranges::find(known.tokens->removed(), id) != known.tokens->removed().end();
    });
  }
  row.tokens.add(known.tokens->inside());
  add_exits(known, item.position, row);
  return row;
}

const TokenMasks::Known& TokenMasks::tokens_of(LexemeStates::State lexeme) {
  const auto found = known_.find(lexeme);
  if (found != known_.end()) return found->second;
  Known known;
  const LexemeTokensCache::Key key = arena_->structure(lexemes_->expression(lexeme), known.tags);
  const bool is_shared = key.size() <= kMaxSharedStructure;
  known.base = LexemeTokens::base_of(lexeme, *lexemes_, *arena_);
  if (is_shared) known.tokens = vocab_->cache().find(key);
  if (!known.tokens) {
    known.tokens = std::make_shared<const LexemeTokens>(lexeme, known.base, known.tags, *lexemes_, *arena_,
                                                        vocab_->tree(), vocab_->n_tokens());
    if (is_shared) vocab_->cache().insert(key, known.tokens);
  }
  n_bytes_ += sizeof(known) + known.tokens->n_bytes();
  return known_.emplace(lexeme, std::move(known)).first->second;
}

void TokenMasks::add_exits(const Known& known, const ParserStates::Position& position, Row& row) {
  std::vector<int32_t> found;
  std::vector<int32_t>* to_try = states_->captures(position) ? &row.to_try : nullptr;
  for (const LexemeTokens::Exit& exit : known.tokens->exits()) {
    std::vector<uint32_t> tags;
    for (const uint32_t place : exit.tags) tags.push_back(known.tags[place]);
    std::ranges::sort(tags);
    const State after = states_->after_lexemes(position, tags);
    if (after == ParserStates::kDead) continue;
    found.insert(found.end(), exit.at_end.begin(), exit.at_end.end());
    if (exit.nodes.empty()) continue;
    states_->live_bytes(after).for_each([&](uint8_t byte) {
      const VocabTree* rests = known.tokens->rests(exit, byte, vocab_->tree());
      if (rests != nullptr) walk_rests(*rests, after, found, to_try);
    });
  }
  row.tokens.add(found);
}

// Finds the tokens whose rests can follow a state. to_try: for those that read part of a value that may be captured.
void TokenMasks::walk_rests(const VocabTree& rests, State state, std::vector<int32_t>& found,
                            std::vector<int32_t>* to_try) {
  struct Place {
    State state;
    bool has_capture;
  };
  std::vector<Place> path(to_size(rests.node(0).height) + 1);
  path[0] = {state, false};
  const auto n_nodes = static_cast<uint32_t>(rests.nodes().size());
  for (uint32_t node = 1; node < n_nodes;) {
    const VocabTree::Node& data = rests.node(node);
    const Place& before = path[data.depth - 1U];
    const State then = states_->next(before.state, data.byte);
    if (then == ParserStates::kDead) {
      node = data.end;
      continue;
    }
    path[data.depth] = {then, before.has_capture || (to_try != nullptr && states_->has_text(then))};
    std::vector<int32_t>& fitting = path[data.depth].has_capture ? *to_try : found;
    const auto tokens = rests.tokens(node);
    fitting.insert(fitting.end(), tokens.begin(), tokens.end());
    ++node;
  }
}

const TokenRow& TokenMasks::of_set(uint32_t number) {
  const auto known = sets_.find(number);
  if (known != sets_.end()) return known->second;
  const TokenSet& set = rules_->token_set(number);
  std::vector<int32_t> ids;
  if (set.is_complement) {
    for (int32_t id = 0; vocab_->contains(id); ++id)
      if (!vocab_->token(id).ends_text && !(set.has_no_text && !vocab_->token(id).text.empty()) &&
          std::ranges::find(set.ids, id) == set.ids.end())
        ids.push_back(id);
  } else {
    std::ranges::copy_if(set.ids, std::back_inserter(ids), [&](int32_t id) { return vocab_->contains(id); });
  }
  TokenRow row(vocab_->n_tokens());
  row.add(ids);
  n_bytes_ += row.n_bytes();
  return sets_.emplace(number, std::move(row)).first->second;
}

}  // namespace tessera::text::grammar
