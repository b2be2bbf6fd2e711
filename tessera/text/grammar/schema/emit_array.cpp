// Rules of arrays.
#include <algorithm>

#include "tessera/text/grammar/schema/emit.h"

namespace tessera::text::grammar {
namespace {

// Each doubles the ways to read an item.
constexpr size_t kMaxContains = 3;
constexpr uint32_t kMaxDistinct = 64;  // items that must differ

}  // namespace

// The first counter is the number of items after the prefix, the others are those of `contains`.
class SchemaEmitter::Items {
 public:
  Items(SchemaEmitter& emitter, const ArrayShape& array, RuleId rule)
      : emitter_(emitter),
        rules_(*emitter.rules_),
        arena_(*emitter.arena_),
        array_(array),
        contains_(array.contains),
        rule_(rule),
        max_(array.max),
        n_prefix_(std::min<size_t>(array.prefix.size(), array.max)),
        has_rest_(array.rest != Terms::kNever && array.max > n_prefix_),
        is_unique_(array.is_unique && array.max > 1) {}

  Done emit() {
    const bool has_two = std::ranges::count_if(contains_, [](const Contains& c) { return c.min > 0; }) > 1;
    if (contains_.size() > kMaxContains) return std::unexpected(refused("contains", "more than 3 conditions"));
    if (has_two && array_.max != kUnbounded)
      return std::unexpected(refused("contains", "two conditions beside maxItems are not supported"));
    if (const Done done = ways_of(array_.rest, rest_ways_); !done) return done;
    const auto is_possible = can_have_items();
    if (!is_possible) return std::unexpected(is_possible.error());
    if (!*is_possible) return {};
    const auto left = [&](uint32_t count) { return count > n_prefix_ ? count - static_cast<uint32_t>(n_prefix_) : 0; };
    rules_.add_counter(rule_, {.min = left(array_.min), .max = max_ == kUnbounded ? kUnbounded : left(max_)});
    for (const Contains& c : contains_)
      rules_.add_counter(rule_, {.min = c.min, .max = c.max, .is_apart = contains_.size() == 1});
    return add_items();
  }

 private:
  // A way to read an item, and the counters of the conditions that it fulfils.
  struct Way {
    Term term;
    std::vector<uint32_t> fulfils{};
  };

  // Without a maximum, an item need not count even if it could.
  Done ways_of(Term term, std::vector<Way>& ways) {
    Terms& terms = emitter_.algebra_->terms();
    ways = {{term}};
    for (uint32_t i = 0; i < contains_.size(); ++i) {
      const bool is_bounded = contains_[i].max != kUnbounded;
      std::vector<Way> divided;
      for (const Way& way : ways) {
        const Term other = is_bounded ? terms.all_of(way.term, terms.negation(contains_[i].term)) : way.term;
        divided.push_back({other, way.fulfils});
        divided.push_back({terms.all_of(way.term, contains_[i].term), way.fulfils});
        divided.back().fulfils.push_back(i + 1);
      }
      ways.clear();
      for (Way& way : divided) {
        const auto possible = emitter_.is_possible(way.term);
        if (!possible) return std::unexpected(possible.error());
        if (*possible) ways.push_back(std::move(way));
      }
    }
    return {};
  }

  // Whether an array can reach all its minimums. Lowers the maximum to what is possible.
  std::expected<bool, GrammarError> can_have_items() {
    const bool has_max = std::ranges::any_of(contains_, [](const Contains& c) { return c.max != kUnbounded; });
    for (uint32_t i = 0; i < contains_.size(); ++i) {
      const auto n_fulfilling = std::ranges::count_if(
          rest_ways_, [&](const Way& way) { return std::ranges::find(way.fulfils, i + 1) != way.fulfils.end(); });
      const bool can_fulfil = has_rest_ && n_fulfilling > 0;
      if (n_prefix_ > 0 && (has_max || (contains_[i].min > 0 && !can_fulfil)))
        return std::unexpected(refused("contains", "beside items by position it is not supported"));
      if ((contains_[i].min > 0 && !can_fulfil) || contains_[i].min > max_) return false;
      if (contains_[i].max != kUnbounded && n_fulfilling == static_cast<ptrdiff_t>(rest_ways_.size()))
        max_ = std::min(max_, contains_[i].max);  // each item counts
    }
    if (is_unique_ && array_.min > 1) return can_differ();
    return array_.min <= max_;
  }

  // Whether the items can differ from one another.
  std::expected<bool, GrammarError> can_differ() {
    if (array_.min > kMaxDistinct)
      return std::unexpected(refused("uniqueItems", "beside minItems above 64 it is not supported"));
    if (n_prefix_ > 0 || !contains_.empty())
      return std::unexpected(refused("uniqueItems", "beside minItems and other conditions it is not supported"));
    const auto texts = emitter_.scalar_texts(array_.rest);
    if (!texts) return std::unexpected(texts.error());
    return array_.min <= max_ && emitter_.algebra_->has_values(*texts, array_.min);
  }

  Done add_items() {
    RuleState after = rules_.add_state(rule_);  // so many items
    emitter_.add_lexeme(rules_.rule(rule_).start, emitter_.symbol("["), after);
    for (size_t i = 0; i < n_prefix_; ++i) {
      add_close(after, i, false);
      const RuleState from = after;
      after = rules_.add_state(rule_);
      std::vector<Way> ways;
      if (const Done done = ways_of(array_.prefix[i], ways); !done) return done;
      if (const Done done = add_ways(from, i, ways, after, {}); !done) return done;
    }
    add_close(after, n_prefix_, true);
    if (!has_rest_) return {};
    RuleState loop = after;
    if (n_prefix_ == 0) {  // the first item has no comma
      loop = rules_.add_state(rule_);
      if (const Done done = add_ways(after, 0, rest_ways_, loop, {0}); !done) return done;
      add_close(loop, 1, true);
    }
    return add_ways(loop, 1, rest_ways_, loop, {0});
  }

  void add_close(RuleState from, size_t n_items, bool is_loop) {
    const Expression lexeme = n_items == 0 ? arena_.literal("]") : emitter_.symbol("]");
    if (is_loop || n_items >= array_.min)
      emitter_.add_lexeme(from, lexeme, rules_.rule(rule_).end, 0, is_loop || !contains_.empty());
  }

  // Adds an item after n others.
  Done add_ways(RuleState from, size_t n_items, const std::vector<Way>& ways, RuleState to,
                const std::vector<uint32_t>& counters) {
    const auto adds_of = [&](const Way& way) {
      std::vector<uint32_t> adds = counters;
      adds.insert(adds.end(), way.fulfils.begin(), way.fulfils.end());
      return rules_.add_counter_list(std::move(adds));
    };
    const Expression comma = n_items == 0 ? ExpressionArena::kEmpty : emitter_.symbol(",");
    // A comma and an item that may be excluded are one lexeme, which is open only where an item is left.
    if (is_unique_) {
      for (const Way& way : ways) {
        const auto texts = emitter_.scalar_texts(way.term);
        if (!texts) return std::unexpected(texts.error());
        const Capture capture = {comma, *texts, ExpressionArena::kEmpty, false};
        rules_.add_capture(from, capture, {.kind = Edge::Kind::lexeme, .value = 0, .target = to, .adds = adds_of(way)},
                           arena_);
      }
      return {};
    }
    RuleState before = from;
    if (n_items > 0) {
      before = rules_.add_state(rule_);
      rules_.add_edge(from,
                      {.kind = Edge::Kind::lexeme, .value = comma, .target = before, .needs_room = !counters.empty()});
    }
    for (const Way& way : ways) emitter_.add_value(before, way.term, to, adds_of(way));
    return {};
  }

  SchemaEmitter& emitter_;
  Rules& rules_;
  ExpressionArena& arena_;
  const ArrayShape& array_;
  const std::vector<Contains>& contains_;
  RuleId rule_;
  uint32_t max_;
  size_t n_prefix_;
  bool has_rest_;
  bool is_unique_;
  std::vector<Way> rest_ways_;
};

SchemaEmitter::Done SchemaEmitter::emit_array(const ArrayShape& array, RuleId rule) {
  return Items(*this, array, rule).emit();
}

}  // namespace tessera::text::grammar
