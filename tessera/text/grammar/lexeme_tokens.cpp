#include "tessera/text/grammar/lexeme_tokens.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <string_view>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

using State = LexemeStates::State;

// A state with fewer live bytes has few tokens, which are found quickly.
constexpr int kManyBytes = 48;
// A repetition with a lower maximum differs from one without in most tokens.
constexpr uint32_t kManyRepeats = 5;
constexpr uint32_t kManyNodes = 16;
constexpr uint64_t kVisitsPerStep = 8;  // they take about the same time

// The state that most printable characters of ASCII lead to, if it is the same for two of three.
std::optional<State> common_target(State state, LexemeStates& lexemes) {
  constexpr uint8_t kFirst = 0x20, kLast = 0x7e;
  constexpr int kBytes = kLast - kFirst + 1;
  // A target that more than half of the bytes lead to outlasts all others (Boyer and Moore 1991).
  std::array<State, kBytes> targets;
  State found = LexemeStates::kDead;
  int n_ahead = 0;
  for (int i = 0; i < kBytes; ++i) {
    const State target = targets[to_size(i)] = lexemes.next(state, static_cast<uint8_t>(kFirst + i));
    if (n_ahead == 0) found = target;
    n_ahead += target == found ? 1 : -1;
  }
  if (found == LexemeStates::kDead || std::ranges::count(targets, found) * 3 <= kBytes * 2) return std::nullopt;
  return found;
}

}  // namespace

std::optional<LexemeTokens::Base> LexemeTokens::base_of(State state, LexemeStates& lexemes, ExpressionArena& arena) {
  if (lexemes.live_bytes(state).size() < kManyBytes) return std::nullopt;
  const Expression expression = lexemes.expression(state);
  const bool is_plain = arena.is_plain(expression);
  const auto wider = is_plain ? ExpressionArena::WithoutMaxima{arena.clipped(expression, kManyRepeats)}
                              : arena.without_maxima(expression, kManyRepeats);
  if (wider.expression != expression && arena.common_texts(expression, wider.expression)) {
    constexpr size_t kNever = SIZE_MAX;
    size_t completion = 0;
    for (const Expression changed : wider.changed)
      completion = std::max(completion, lexemes.longest_completion(lexemes.state_of(changed)).value_or(kNever));
    if (completion != kNever) return Base{lexemes.state_of(wider.expression), true, completion};
  }
  const auto target = common_target(state, lexemes);
  if (!target || *target == state || common_target(*target, lexemes) != target) return std::nullopt;
  return Base{*target, false};
}

// A walk through the vocabulary's tree along the state and along its base.
class LexemeTokens::Walk {
 public:
  Walk(LexemeTokens& made, std::span<const uint32_t> tags, LexemeStates& lexemes, ExpressionArena& arena,
       const VocabTree& tree)
      : made_(made), tags_(tags), lexemes_(lexemes), arena_(arena), tree_(tree) {}

  void run(State state, const std::optional<Base>& base) {
    is_clipped_ = base && base->is_clipped;
    completion_ = base ? base->completion : 0;
    path_.resize(to_size(tree_.node(0).height) + 1);
    path_[0] = {state, base ? std::optional(base->state) : std::nullopt};
    if (base && is_same(path_[0], tree_.node(0))) return;
    const auto n_nodes = static_cast<uint32_t>(tree_.nodes().size());
    uint64_t n_visited = 0;
    for (uint32_t node = 1; node < n_nodes; ++n_visited) node = visit(node) ? node + 1 : tree_.node(node).end;
    arena_.spend_steps(n_visited / kVisitsPerStep);
    std::vector<int32_t> ids;
    for (const auto& [first, last] : inside_) {
      const auto range = tree_.ids().subspan(first, last - first);
      ids.insert(ids.end(), range.begin(), range.end());
    }
    made_.inside_.add(ids);
  }

 private:
  static constexpr uint64_t kUnknown = UINT64_MAX;

  struct Place {
    State state;
    std::optional<State> base;
  };

  // Properties of a state that decide how a search goes on from it.
  struct Facts {
    bool is_known = false;
    bool goes_on = false;
    bool is_exit = false;
    uint64_t loop_groups = kUnknown;  // of bytes that lead back to the state, which is no exit
  };

  // The texts that a state and a base have in common.
  struct Common {
    State base = LexemeStates::kDead;
    std::optional<ExpressionArena::CommonTexts> texts{};
    uint64_t end_groups = 0;  // of their bytes
  };

  // Whether the tokens below the node are to be visited.
  bool visit(uint32_t node) {
    const VocabTree::Node& data = tree_.node(node);
    const Place& before = path_[data.depth - 1U];
    Place& at = path_[data.depth];
    at = {lexemes_.next(before.state, data.byte), std::nullopt};
    if (before.base) {
      at.base = lexemes_.next(*before.base, data.byte);
      if (is_same(at, data)) return false;
      // If the base ends here, tokens may go on after it: then all tokens below the node are found anew. The same is so
      // if nothing follows the state.
      const bool is_last = !lexemes_.goes_on(at.state) || !lexemes_.tags(*at.base).empty();
      const auto removed = is_last ? tree_.tokens_below(node) : tree_.tokens(node);
      made_.removed_.insert(made_.removed_.end(), removed.begin(), removed.end());
      if (is_last) at.base.reset();
    }
    if (at.state == LexemeStates::kDead) return false;
    if (!at.base && data.end - node > kManyNodes && lexemes_.next(at.state, tree_.node(node + 1).byte) == at.state &&
        (data.groups & ~loop_groups(at.state)) == 0) {
      add_inside(data.first_token, tree_.node(data.end).first_token);  // all tokens below stay in this state
      return false;
    }
    const Facts& facts = facts_of(at.state);
    if (facts.goes_on) add_inside(data.first_token, tree_.node(node + 1).first_token);
    if (facts.is_exit) {
      Exit& exit = exit_with(lexemes_.tags(at.state));
      if (data.height > 0) exit.nodes.push_back(node);
      const auto tokens = tree_.tokens(node);
      if (!facts.goes_on) exit.at_end.insert(exit.at_end.end(), tokens.begin(), tokens.end());
    }
    return facts.goes_on;
  }

  // Adds places of the tree's tokens. Mostly they follow those that were added before.
  void add_inside(uint32_t first, uint32_t last) {
    if (first == last) return;
    if (!inside_.empty() && inside_.back().second == first)
      inside_.back().second = last;
    else
      inside_.emplace_back(first, last);
  }

  Exit& exit_with(const std::vector<uint32_t>& tags) {
    std::vector<uint32_t> places;
    for (const uint32_t tag : tags)
      places.push_back(static_cast<uint32_t>(std::ranges::find(tags_, tag) - tags_.begin()));
    const auto known = std::ranges::find(made_.exits_, places, &Exit::tags);
    if (known != made_.exits_.end()) return *known;
    made_.exits_.emplace_back().tags = std::move(places);
    return made_.exits_.back();
  }

  Facts& facts_of(State state) {
    if (state >= facts_.size()) facts_.resize(lexemes_.size());
    if (!facts_[state].is_known)
      facts_[state] = {.is_known = true, .goes_on = lexemes_.goes_on(state), .is_exit = !lexemes_.tags(state).empty()};
    return facts_[state];
  }

  uint64_t loop_groups(State state) {
    Facts& facts = facts_of(state);
    if (facts.loop_groups == kUnknown)
      facts.loop_groups = facts.is_exit ? 0 : VocabTree::groups_in(lexemes_.loop_bytes(state));
    return facts.loop_groups;
  }

  // Whether a state and its base are the same for the texts below a node.
  bool is_same(const Place& place, const VocabTree::Node& node) {
    if (place.state == *place.base) return true;
    if (!is_clipped_ || place.state == LexemeStates::kDead || *place.base == LexemeStates::kDead) return false;
    // A state is nearly always met with the same base.
    if (place.state >= common_.size()) common_.resize(lexemes_.size());
    Common& common = common_[place.state];
    if (common.base != *place.base) {
      common = {*place.base, arena_.common_texts(lexemes_.expression(place.state), lexemes_.expression(*place.base))};
      common.end_groups = common.texts ? VocabTree::groups_of(common.texts->ends) : 0;
    }
    if (!common.texts) return false;
    const bool has_end = (node.groups & common.end_groups) != 0;
    return (has_end ? common.texts->n_bytes : common.texts->n_bytes_without) >= node.height + completion_;
  }

  LexemeTokens& made_;
  std::span<const uint32_t> tags_;
  LexemeStates& lexemes_;
  ExpressionArena& arena_;
  const VocabTree& tree_;
  bool is_clipped_ = false;
  size_t completion_ = 0;
  std::vector<Place> path_;                            // by depth
  std::vector<std::pair<uint32_t, uint32_t>> inside_;  // ranges of the tree's tokens
  std::vector<Facts> facts_;                           // by state
  std::vector<Common> common_;                         // by state
};

LexemeTokens::LexemeTokens(State state, const std::optional<Base>& base, std::span<const uint32_t> tags,
                           LexemeStates& lexemes, ExpressionArena& arena, const VocabTree& tree, size_t n_tokens)
    : inside_(n_tokens) {
  Walk(*this, tags, lexemes, arena, tree).run(state, base);
}

const VocabTree* LexemeTokens::rests(const Exit& exit, uint8_t byte, const VocabTree& tree) const {
  const std::scoped_lock lock(mutex_);
  const auto known = exit.rests.find(byte);
  if (known != exit.rests.end()) return known->second.get();
  std::deque<std::string> texts;
  std::vector<VocabTree::Token> tokens;
  std::string text;
  for (const uint32_t node : exit.nodes) {
    const uint32_t depth = tree.node(node).depth;
    uint32_t child = node + 1;
    while (child < tree.node(node).end && tree.node(child).byte < byte) child = tree.node(child).end;
    if (child >= tree.node(node).end || tree.node(child).byte != byte) continue;
    for (uint32_t i = child; i < tree.node(child).end; ++i) {
      text.resize(tree.node(i).depth - depth - 1U);
      text.push_back(static_cast<char>(tree.node(i).byte));
      if (!tree.tokens(i).empty()) texts.push_back(text);
      for (const int32_t id : tree.tokens(i)) tokens.push_back({texts.back(), id});
    }
  }
  auto made = tokens.empty() ? nullptr : std::make_unique<const VocabTree>(std::move(tokens));
  return exit.rests.emplace(byte, std::move(made)).first->second.get();
}

size_t LexemeTokens::n_bytes() const {
  size_t n = sizeof(*this) + inside_.n_bytes() + removed_.size() * sizeof(int32_t);
  for (const Exit& exit : exits_) n += sizeof(exit) + (exit.at_end.size() + exit.nodes.size()) * sizeof(int32_t);
  return n;
}

size_t LexemeTokensCache::HashOfKey::operator()(const Key& key) const {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(key.data()), key.size() * sizeof(Key::value_type)});
}

LexemeTokensCache::Value LexemeTokensCache::find(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->value;
}

void LexemeTokensCache::insert(Key key, Value value) {
  const std::scoped_lock lock(mutex_);
  if (by_key_.contains(key)) return;
  const size_t n_bytes = value->n_bytes() + key.size() * sizeof(Key::value_type);
  entries_.push_front({std::move(key), std::move(value), n_bytes});
  by_key_.emplace(entries_.front().key, entries_.begin());
  n_bytes_ += n_bytes;
  while (n_bytes_ > max_bytes_ && entries_.size() > 1) {
    n_bytes_ -= entries_.back().n_bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace tessera::text::grammar
