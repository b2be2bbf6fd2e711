#include "tessera/text/grammar/parser_states.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tessera/base/hash.h"

namespace tessera::text::grammar {
namespace {

constexpr uint32_t kBottom = 0;            // the frame of the start rule
constexpr size_t kMaxPositions = 1 << 16;  // of one closure
constexpr uint64_t kComparisonsPerStep = 128;
constexpr uint32_t kEmptyText = 1;
constexpr size_t kMaxSeen = 4096;  // of a call

template <class T>
void sort_unique(std::vector<T>& values) {
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
}

}  // namespace

class ParserStates::Closure {
 public:
  Closure(ParserStates& states, StateData& data) : states_(states), data_(data) {}

  void add(const Position& position) {
    const auto [known, is_new] = counts_.try_emplace({position.state, position.frame});
    std::vector<uint32_t>& counts = known->second;
    states_.arena_->spend_steps(counts.size() / kComparisonsPerStep);
    // Repetitions without text are not worth their count.
    const bool is_idle = states_.rules_->has_empty_turns(states_.rules_->rule_of(position.state)) && !is_new;
    if (is_idle || std::ranges::find(counts, position.counts) != counts.end()) return;
    counts.push_back(position.counts);
    open_.push_back(position);
  }

  void run() {
    size_t n_positions = 0;
    while (true) {
      for (; !open_.empty(); ++n_positions) {
        if (n_positions > kMaxPositions || data_.items.size() > kMaxItems || !states_.arena_->has_steps()) {
          states_.overflowed_ = true;
          return;
        }
        const Position position = open_.back();
        open_.pop_back();
        visit(position);
      }
      if (calls_.empty()) return;
      // The rule that no other waiting one can begin with: its callers are all known.
      const auto first = calls_.begin();
      const RuleId rule = first->first.second;
      std::vector<Return> returns = std::move(first->second);
      calls_.erase(first);
      add({states_.rules_->rule(rule).start, states_.add_frame(std::move(returns)), 0});
    }
  }

 private:
  void visit(const Position& position) {
    const std::span<const Edge> edges = states_.rules_->edges(position.state);
    states_.arena_->spend_steps(1 + edges.size() / kComparisonsPerStep);
    if (states_.rules_->is_end(position.state)) end_call(position.frame);
    bool has_lexeme = false, has_tokens = false;
    for (const Edge& edge : edges) {
      if (!states_.is_open(edge, position)) continue;
      has_lexeme |= edge.kind == Edge::Kind::lexeme;
      has_tokens |= edge.kind == Edge::Kind::tokens;
      if (edge.kind == Edge::Kind::call) begin_call(edge, position);
    }
    if (has_tokens) data_.at_tokens.push_back(position);
    if (!has_lexeme) return;
    const uint32_t text = states_.captures(position) ? kEmptyText : 0;
    states_.enter_lexeme({position, states_.first_lexeme(position), text}, data_.items, *this);
  }

  void end_call(Frame frame) {
    data_.is_complete |= frame == kBottom;
    for (const Return& to : states_.frames_[frame].returns) add({to.state, to.frame, to.counts});
  }

  void begin_call(const Edge& edge, const Position& position) {
    const Rules& rules = *states_.rules_;
    const RuleId rule = edge.value;
    if (states_.frames_[position.frame].depth + rules.min_depth(rule) > Rules::kMaxDepth) return;
    std::vector<Return> returns;
    // A call at the end of a rule returns to the callers of that rule, so that loops by recursion stay flat.
    if (rules.is_end(edge.target) && position.frame != kBottom) {
      returns = states_.frames_[position.frame].returns;
    } else {
      const Position then = states_.after(edge, position);
      returns.push_back({then.state, then.frame, then.counts});
    }
    std::vector<Return>& made = made_calls_[rule];
    for (const Return& to : returns) {
      states_.arena_->spend_steps(made.size() / kComparisonsPerStep);
      if (std::ranges::find(made, to) != made.end()) continue;
      made.push_back(to);
      calls_[{rules.rank(rule), rule}].push_back(to);
    }
  }

  ParserStates& states_;
  StateData& data_;
  std::vector<Position> open_;
  std::map<std::pair<RuleState, Frame>, std::vector<uint32_t>> counts_;  // of the positions that were added
  std::map<std::pair<uint32_t, RuleId>, std::vector<Return>> calls_;     // by rank and rule, to be begun
  std::map<RuleId, std::vector<Return>> made_calls_;
};

ParserStates::ParserStates(const Rules& rules, LexemeStates& lexemes, ExpressionArena& arena)
    : rules_(&rules), lexemes_(&lexemes), arena_(&arena), seen_values_(arena, rules.writing()) {
  states_.emplace_back();
  records_.emplace_back();
  record_numbers_.emplace(Record(), 0);
  texts_.resize(kEmptyText + 1);
  frames_.push_back({.returns = {}, .depth = 1});
  StateData data;
  Closure closure(*this, data);
  closure.add({rules.rule(rules.start()).start, kBottom, 0});
  closure.run();
  start_ = add(std::move(data));
}

bool ParserStates::has_records(RuleState state) const {
  const Rules::Rule& rule = rules_->rule(rules_->rule_of(state));
  return rule.counters.size() > 1 || rule.has_captures;
}

uint32_t ParserStates::count(const Position& position, uint32_t counter) const {
  if (!has_records(position.state)) return position.counts;
  const std::vector<uint32_t>& counts = records_[position.counts].counts;
  return counter < counts.size() ? counts[counter] : 0;
}

bool ParserStates::captures(const Position& position) const {
  return std::ranges::any_of(rules_->edges(position.state), [](const Edge& edge) { return edge.capture != 0; });
}

bool ParserStates::is_open(const Edge& edge, const Position& position) const {
  if (edge.capture != 0 && records_[position.counts].seen.size() >= kMaxSeen) return false;
  if (edge.adds == 0 && !edge.needs_min && !edge.needs_room) return true;
  const std::vector<Counter>& counters = rules_->rule(rules_->rule_of(position.state)).counters;
  const auto is_below_max = [&](uint32_t i) {
    return counters[i].max == kUnbounded || count(position, i) < counters[i].max;
  };
  if (edge.needs_room && !is_below_max(0)) return false;
  if (edge.needs_min)
    for (uint32_t i = 0; i < counters.size(); ++i)
      if (count(position, i) < counters[i].min) return false;
  const std::span<const uint32_t> adds = rules_->counter_list(edge.adds);
  if (!std::ranges::all_of(adds, is_below_max)) return false;
  if (adds.empty() || adds[0] != 0 || counters[0].max == kUnbounded) return true;
  uint64_t n_missing = 0;
  for (uint32_t i = 1; i < counters.size(); ++i) {
    const uint32_t n = count(position, i) + (std::ranges::find(adds, i) != adds.end() ? 1 : 0);
    if (counters[i].is_apart && n < counters[i].min) n_missing += counters[i].min - n;
  }
  return n_missing <= counters[0].max - count(position, 0) - 1;
}

uint32_t ParserStates::add_record(Record record) {
  const auto number = static_cast<uint32_t>(records_.size());
  const auto [known, is_new] = record_numbers_.try_emplace(record, number);
  if (is_new) records_.push_back(std::move(record));
  return known->second;
}

uint32_t ParserStates::add_text(uint32_t before, uint8_t byte) {
  const auto number = static_cast<uint32_t>(texts_.size());
  const auto [known, is_new] = text_numbers_.try_emplace(uint64_t{before} << 8 | byte, number);
  if (is_new) texts_.push_back({before, byte});
  return known->second;
}

std::string ParserStates::text(uint32_t number) const {
  std::string reversed;
  for (; number > kEmptyText; number = texts_[number].before) reversed += static_cast<char>(texts_[number].byte);
  return {reversed.rbegin(), reversed.rend()};
}

ParserStates::Position ParserStates::after(const Edge& edge, const Position& position) {
  Position then = {edge.target, position.frame, position.counts};
  if (edge.adds == 0) return then;
  const std::vector<Counter>& counters = rules_->rule(rules_->rule_of(position.state)).counters;
  // Without a maximum, counts above the minimum are all the same.
  const auto most = [&](uint32_t i) { return counters[i].max == kUnbounded ? counters[i].min : counters[i].max; };
  if (!has_records(position.state)) {
    then.counts = std::min(position.counts + 1, most(0));
    return then;
  }
  Record record = records_[position.counts];
  record.counts.resize(counters.size());
  for (const uint32_t i : rules_->counter_list(edge.adds)) record.counts[i] = std::min(record.counts[i] + 1, most(i));
  then.counts = add_record(std::move(record));
  return then;
}

// The position after a lexeme with a text, which is captured if the edge asks for it.
ParserStates::Position ParserStates::after_lexeme(const Edge& edge, const Position& position, uint32_t text_number) {
  Position then = after(edge, position);
  if (edge.capture == 0) return then;
  Record record = records_[then.counts];
  record.seen.push_back(seen_values_.texts_of(text(text_number), rules_->capture(edge.capture).is_name));
  sort_unique(record.seen);
  then.counts = add_record(std::move(record));
  return then;
}

// The lexeme of an edge, without values that were captured before.
Expression ParserStates::lexeme_of(const Edge& edge, const Position& position) {
  if (edge.capture == 0 || records_[position.counts].seen.empty()) return edge.value;
  const Capture& capture = rules_->capture(edge.capture);
  const Expression seen = arena_->any_of(records_[position.counts].seen);
  const Expression inside = arena_->all_of(capture.inside, arena_->complement(seen));
  return arena_->concat(std::vector{capture.before, inside, capture.after});
}

// The lexemes of the open edges as one, with the places of the edges as tags.
LexemeStates::State ParserStates::first_lexeme(const Position& position) {
  const std::span<const Edge> edges = rules_->edges(position.state);
  Hash64 open;
  for (const Edge& edge : edges)
    if (edge.needs_min || edge.needs_room || edge.adds != 0) open.add(uint64_t{is_open(edge, position)});
  if (captures(position))
    for (const Expression seen : records_[position.counts].seen) open.add(uint64_t{seen});
  const auto key = std::pair(position.state, open.value());
  const auto found = first_lexemes_.find(key);
  if (found != first_lexemes_.end()) return found->second;
  std::vector<Expression> alternatives;
  for (size_t i = 0; i < edges.size(); ++i)
    if (edges[i].kind == Edge::Kind::lexeme && is_open(edges[i], position))
      alternatives.push_back(arena_->concat(lexeme_of(edges[i], position), arena_->tag(static_cast<uint32_t>(i))));
  // Names after a comma share the comma, the space around it and the quote.
  constexpr int kSharedParts = 4;
  const LexemeStates::State first = lexemes_->state_of(arena_->any_of_joined(std::move(alternatives), kSharedParts));
  first_lexemes_.emplace(key, first);
  return first;
}

// Adds the item if its lexeme can go on, and what follows the lexemes that may end here.
void ParserStates::enter_lexeme(const Item& item, std::vector<Item>& items, Closure& closure) {
  if (item.lexeme == LexemeStates::kDead) return;
  if (lexemes_->goes_on(item.lexeme)) items.push_back(item);
  const std::vector<uint32_t> tags = lexemes_->tags(item.lexeme);
  for (const uint32_t tag : tags)
    closure.add(after_lexeme(rules_->edges(item.position.state)[tag], item.position, item.text));
}

ParserStates::State ParserStates::next(State state, uint8_t byte) {
  const uint64_t key = uint64_t{state} << 8 | byte;
  const auto known = steps_.find(key);
  if (known != steps_.end()) return known->second;
  StateData data;
  Closure closure(*this, data);
  for (size_t i = 0; i < states_[state].items.size(); ++i) {
    Item item = states_[state].items[i];
    item.lexeme = lexemes_->next(item.lexeme, byte);
    if (item.text != 0 && item.lexeme != LexemeStates::kDead) item.text = add_text(item.text, byte);
    enter_lexeme(item, data.items, closure);
  }
  closure.run();
  const State then = add(std::move(data));
  steps_.emplace(key, then);
  return then;
}

ParserStates::State ParserStates::next(State state, std::string_view text) {
  for (size_t i = 0; i < text.size() && state != kDead; ++i) state = next(state, static_cast<uint8_t>(text[i]));
  return state;
}

ParserStates::State ParserStates::next_token(State state, int32_t token, std::string_view text, bool ends_text) {
  const State by_text = text.empty() ? kDead : next(state, text);
  if (states_[state].at_tokens.empty()) return by_text;
  StateData data = states_[by_text];
  Closure closure(*this, data);
  for (const Position& position : states_[state].at_tokens)
    for (const Edge& edge : rules_->edges(position.state)) {
      if (edge.kind != Edge::Kind::tokens || !is_open(edge, position)) continue;
      const TokenSet& set = rules_->token_set(edge.value);
      const bool is_listed = std::ranges::find(set.ids, token) != set.ids.end();
      const bool is_other = !is_listed && !ends_text && (text.empty() || !set.has_no_text);
      if (set.is_complement ? is_other : is_listed) closure.add(after(edge, position));
    }
  closure.run();
  return add(std::move(data));
}

std::vector<uint32_t> ParserStates::token_sets(State state) const {
  std::vector<uint32_t> places;
  for (const Position& position : states_[state].at_tokens)
    for (const Edge& edge : rules_->edges(position.state))
      if (edge.kind == Edge::Kind::tokens && is_open(edge, position)) places.push_back(edge.value);
  sort_unique(places);
  return places;
}

ByteSet ParserStates::live_bytes(State state) {
  ByteSet live;
  for (const Item& item : states_[state].items) live = live | lexemes_->live_bytes(item.lexeme);
  return live;
}

ParserStates::State ParserStates::after_lexemes(const Position& position, std::span<const uint32_t> tags) {
  const auto key = std::pair(position, std::vector(tags.begin(), tags.end()));
  const auto known = after_lexemes_.find(key);
  if (known != after_lexemes_.end()) return known->second;
  StateData data;
  Closure closure(*this, data);
  for (const uint32_t tag : tags) closure.add(after(rules_->edges(position.state)[tag], position));
  closure.run();
  const State then = add(std::move(data));
  after_lexemes_.emplace(key, then);
  return then;
}

ParserStates::State ParserStates::add(StateData data) {
  if (data.items.empty() && data.at_tokens.empty() && !data.is_complete) return kDead;
  sort_unique(data.items);
  sort_unique(data.at_tokens);
  Hash64 hash;
  hash.add(uint64_t{data.is_complete});
  const auto add_position = [&](const Position& p) {
    hash.add(uint64_t{p.state} << 32 | p.frame).add(uint64_t{p.counts});
  };
  for (const Item& item : data.items) {
    add_position(item.position);
    hash.add(uint64_t{item.lexeme} << 32 | item.text);
  }
  for (const Position& position : data.at_tokens) add_position(position);
  const auto [first, last] = state_numbers_.equal_range(hash.value());
  for (auto known = first; known != last; ++known)
    if (states_[known->second] == data) return known->second;
  const auto added = static_cast<State>(states_.size());
  states_.push_back(std::move(data));
  state_numbers_.emplace(hash.value(), added);
  return added;
}

ParserStates::Frame ParserStates::add_frame(std::vector<Return> returns) {
  sort_unique(returns);
  Hash64 hash;
  uint32_t depth = 0;
  for (const Return& to : returns) {
    hash.add(uint64_t{to.state} << 32 | to.frame).add(uint64_t{to.counts});
    depth = std::max(depth, frames_[to.frame].depth);
  }
  const auto [first, last] = frame_numbers_.equal_range(hash.value());
  for (auto known = first; known != last; ++known)
    if (frames_[known->second].returns == returns) return known->second;
  const auto added = static_cast<Frame>(frames_.size());
  frames_.push_back({std::move(returns), depth + 1});
  frame_numbers_.emplace(hash.value(), added);
  return added;
}

// The counts of a rule's state as they are numbered here.
uint32_t ParserStates::copy_of_counts(RuleState state, uint32_t counts, const ParserStates& other) {
  if (!has_records(state)) return counts;
  Record record = other.records_[counts];
  for (Expression& seen : record.seen) seen = arena_->copy_of(seen, *other.arena_);
  sort_unique(record.seen);
  return add_record(std::move(record));
}

std::vector<ParserStates::State> ParserStates::copies_of(std::span<const State> states, ParserStates& other) {
  // The frames around the items, and around those. A frame returns to frames that were made before it.
  std::set<Frame, std::greater<>> around;
  for (const State state : states) {
    for (const Item& item : other.states_[state].items) around.insert(item.position.frame);
    for (const Position& position : other.states_[state].at_tokens) around.insert(position.frame);
  }
  for (auto frame = around.begin(); frame != around.end(); ++frame)
    for (const Return& to : other.frames_[*frame].returns) around.insert(to.frame);
  std::unordered_map<Frame, Frame> frames = {{kBottom, kBottom}};
  for (auto frame = around.rbegin(); frame != around.rend(); ++frame) {
    if (*frame == kBottom) continue;
    std::vector<Return> returns = other.frames_[*frame].returns;
    for (Return& to : returns) to = {to.state, frames.at(to.frame), copy_of_counts(to.state, to.counts, other)};
    frames.emplace(*frame, add_frame(std::move(returns)));
  }
  std::unordered_map<State, State> copied = {{kDead, kDead}};
  std::unordered_map<LexemeStates::State, LexemeStates::State> lexemes;
  const auto copy_lexeme = [&](LexemeStates::State lexeme) {
    const auto [known, is_new] = lexemes.try_emplace(lexeme, LexemeStates::kDead);
    if (is_new)
      known->second = lexemes_->state_with_text(arena_->copy_of(other.lexemes_->expression(lexeme), *other.arena_));
    return known->second;
  };
  const auto copy_position = [&](const Position& p) {
    return Position{p.state, frames.at(p.frame), copy_of_counts(p.state, p.counts, other)};
  };
  std::vector<State> copies;
  for (const State state : states) {
    if (!copied.contains(state)) {
      StateData data = other.states_[state];
      for (Item& item : data.items) {
        item.position = copy_position(item.position);
        item.lexeme = copy_lexeme(item.lexeme);
        if (item.text == 0) continue;
        const std::string text = other.text(item.text);
        item.text = kEmptyText;
        for (const char c : text) item.text = add_text(item.text, static_cast<uint8_t>(c));
      }
      for (Position& position : data.at_tokens) position = copy_position(position);
      copied.emplace(state, add(std::move(data)));
    }
    copies.push_back(copied.at(state));
  }
  return copies;
}

}  // namespace tessera::text::grammar
