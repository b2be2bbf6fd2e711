// Rules of objects. Members come in the order of the schema, then others; or in any order.
#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/text/grammar/schema/emit.h"

namespace tessera::text::grammar {
namespace {

using Property = ObjectShape::Property;

// Each doubles the ways to read a member.
constexpr size_t kMaxSome = 3;

GrammarError refused_members(std::string keyword, std::string message) {
  return {.message = std::move(message), .pointer = "", .keyword = std::move(keyword), .is_of_schema = true};
}

}  // namespace

class SchemaEmitter::Members {
 public:
  Members(SchemaEmitter& emitter, const ObjectShape& object, RuleId rule)
      : emitter_(emitter),
        algebra_(*emitter.algebra_),
        arena_(*emitter.arena_),
        rules_(*emitter.rules_),
        object_(object),
        rule_(rule) {}

  Done emit() {
    if (object_.some.size() > kMaxSome)
      return std::unexpected(refused_members("not", "more than 3 conditions that some member must break"));
    for (const Property& property : object_.properties)
      if (property.term != Terms::kNever) properties_.push_back(property);
    if (const Done done = find_ways(); !done) return done;
    for (size_t i = 0; i < object_.some.size(); ++i)
      if (std::ranges::none_of(ways_, [&](const Way& way) { return way.fulfils(i); })) return {};  // no object
    const auto is_other = [&](const Way& way) { return way.property == properties_.size(); };
    if (object_.min > properties_.size() && std::ranges::none_of(ways_, is_other)) return {};
    const bool has_order = algebra_.spelling().output().order == JsonOrder::schema && !properties_.empty();
    return has_order ? emit_in_order() : emit_in_any_order();
  }

 private:
  // A way to read a member: its name, its value, and the conditions of `some` that it fulfils.
  struct Way {
    size_t property;  // place in properties_; their number for another name
    Expression name;  // texts inside the quotes
    Term term;
    uint32_t some;  // bit i: condition i
    bool fulfils(size_t i) const { return ((some >> i) & 1) != 0; }
  };

  Done find_ways() {
    std::vector<Expression> listed;
    for (const Property& property : object_.properties) listed.push_back(algebra_.spelling().text(property.name));
    const Expression unlisted = arena_.complement(arena_.any_of(std::move(listed)));
    for (size_t i = 0; i < properties_.size(); ++i)
      if (const Done done = add_ways({i, algebra_.spelling().text(properties_[i].name), properties_[i].term, 0}); !done)
        return done;
    for (const ObjectShape::Names& names : object_.others)
      if (names.term != Terms::kNever)
        if (const Done done = add_ways({properties_.size(), arena_.all_of(names.language, unlisted), names.term, 0});
            !done)
          return done;
    return {};
  }

  // Adds a way, and its parts that fulfil conditions.
  Done add_ways(Way way) {
    std::vector<Way> ways = {way};
    for (uint32_t i = 0; i < object_.some.size(); ++i) {
      const size_t n_ways = ways.size();
      for (size_t k = 0; k < n_ways; ++k) {
        Way other = ways[k];
        other.name = arena_.all_of(other.name, object_.some[i].language);
        other.term = algebra_.terms().all_of(other.term, object_.some[i].term);
        other.some |= 1U << i;
        ways.push_back(other);
      }
    }
    for (const Way& possible : ways) {
      if (algebra_.is_empty(possible.name)) continue;
      if (possible.some != 0) {
        const auto has_value = emitter_.is_possible(possible.term);
        if (!has_value) return std::unexpected(has_value.error());
        if (!*has_value) continue;
      }
      ways_.push_back(possible);
    }
    return {};
  }

  // Adds a member that follows a comma or an opening bracket. Names that are not listed come once as well.
  void add_member(RuleState from, const Way& way, bool has_comma, RuleState to, uint32_t adds = 0) {
    const RuleState value = rules_.add_state(rule_);
    emitter_.add_value(value, way.term, to);
    const Expression comma = has_comma ? emitter_.symbol(",") : ExpressionArena::kEmpty;
    const Expression quote = arena_.literal("\""), colon = emitter_.symbol(":");
    const Capture name = {arena_.concat(comma, quote), way.name, arena_.concat(quote, colon), true};
    const Edge edge = {.kind = Edge::Kind::lexeme, .value = 0, .target = value, .adds = adds};
    if (way.property == properties_.size() && object_.max > 1) {
      rules_.add_capture(from, name, edge, arena_);
    } else {
      emitter_.add_lexeme(from, arena_.concat(std::vector{name.before, name.inside, name.after}), value, adds);
    }
  }

  // The first counter is the number of members. Each property has one, so that it comes once, and so has each condition
  // of `some`. A comma is one lexeme with the name after it: so it is open only where a name is.
  Done emit_in_any_order() {
    if (object_.max != kUnbounded && !object_.some.empty() && (!properties_.empty() || object_.some.size() > 1))
      return std::unexpected(refused_members("maxProperties", "beside a condition on some member it is not supported"));
    rules_.add_counter(rule_, {.min = object_.min, .max = object_.max});
    std::vector<uint32_t> of_property, of_some, of_chances;
    for (const Property& property : properties_)
      of_property.push_back(
          rules_.add_counter(rule_, {.min = property.is_required ? 1U : 0U, .max = 1, .is_apart = true}));
    for (size_t i = 0; i < object_.some.size(); ++i) {
      of_some.push_back(rules_.add_counter(rule_, {.min = 1, .is_apart = properties_.empty()}));
      of_chances.push_back(chances(i));
    }
    const RuleState start = rules_.rule(rule_).start, end = rules_.rule(rule_).end;
    const RuleState first = rules_.add_state(rule_), after = rules_.add_state(rule_);
    emitter_.add_lexeme(start, emitter_.symbol("{"), first);
    emitter_.add_lexeme(first, arena_.literal("}"), end, 0, true);
    emitter_.add_lexeme(after, emitter_.symbol("}"), end, 0, true);
    for (const Way& way : ways_) {
      std::vector<uint32_t> adds = {0};
      if (way.property < properties_.size()) adds.push_back(of_property[way.property]);
      for (size_t i = 0; i < of_some.size(); ++i) {
        if (way.fulfils(i))
          adds.push_back(of_some[i]);
        else if (of_chances[i] != 0 && can_fulfil(way.property, i))
          adds.push_back(of_chances[i]);
      }
      const uint32_t list = rules_.add_counter_list(std::move(adds));
      add_member(first, way, false, after, list);
      add_member(after, way, true, after, list);
    }
    return {};
  }

  bool can_fulfil(size_t property, size_t some) const {
    return std::ranges::any_of(ways_, [&](const Way& way) { return way.property == property && way.fulfils(some); });
  }

  // If only listed properties can fulfil a condition, one of them must. Returns a counter for the others, or 0.
  uint32_t chances(size_t some) {
    if (can_fulfil(properties_.size(), some)) return 0;
    uint32_t n = 0;
    for (size_t i = 0; i < properties_.size(); ++i) n += can_fulfil(i, some) ? 1 : 0;
    return rules_.add_counter(rule_, {.max = n - 1});
  }

  // A place in an object: the next property that may come, the number of members as far as it matters, and the
  // conditions of `some` that are fulfilled.
  using Place = std::tuple<size_t, uint32_t, uint32_t>;

  Done emit_in_order() {
    const uint64_t n_counts = uint64_t{object_.max != kUnbounded ? object_.max : object_.min} + 1;
    if ((properties_.size() + 1) * n_counts << object_.some.size() > kMaxStates / 4)
      return std::unexpected(refused_members("maxProperties", "too many states"));
    const RuleState start = rules_.rule(rule_).start, end = rules_.rule(rule_).end;
    const RuleState first = rules_.add_state(rule_);
    emitter_.add_lexeme(start, emitter_.symbol("{"), first);
    add_members(first, false, {0, 0, 0});
    if (may_close({0, 0, 0})) emitter_.add_lexeme(first, arena_.literal("}"), end);
    for (size_t at = 0; at < open_.size(); ++at) {
      const Place place = open_[at];
      const RuleState state = after_.at(place);
      if (may_close(place)) emitter_.add_lexeme(state, emitter_.symbol("}"), end);
      add_members(state, true, place);
      if (rules_.n_states() > kMaxStates) return std::unexpected(refused_members("properties", "too many states"));
      if (!arena_.has_steps()) return {};
    }
    return {};
  }

  // Adds the members that may come at a place, from a state.
  void add_members(RuleState from, bool has_comma, const Place& place) {
    const auto [next, count, some] = place;
    if (object_.max != kUnbounded && count >= object_.max) return;
    // Properties may be left out up to the next required one.
    size_t last = next;
    while (last < properties_.size() && !properties_[last].is_required) ++last;
    for (const Way& way : ways_) {
      if (way.property < next || way.property > last) continue;
      const size_t then = std::min(way.property + 1, properties_.size());
      const uint32_t most = object_.max != kUnbounded ? object_.max : object_.min;
      add_member(from, way, has_comma, state_after({then, std::min(count + 1, most), some | way.some}));
    }
  }

  bool may_close(const Place& place) const {
    const auto [next, count, some] = place;
    const auto rest = std::span(properties_).subspan(next);
    return count >= object_.min && some + 1 == 1U << object_.some.size() &&
           std::ranges::none_of(rest, [](const Property& p) { return p.is_required; });
  }

  RuleState state_after(const Place& place) {
    const auto [found, is_new] = after_.try_emplace(place, 0);
    if (is_new) {
      found->second = rules_.add_state(rule_);
      open_.push_back(place);
    }
    return found->second;
  }

  SchemaEmitter& emitter_;
  ShapeAlgebra& algebra_;
  ExpressionArena& arena_;
  Rules& rules_;
  const ObjectShape& object_;
  RuleId rule_;
  std::vector<Property> properties_;  // that may occur
  std::vector<Way> ways_;
  std::map<Place, RuleState> after_;  // by place after a member
  std::vector<Place> open_;
};

SchemaEmitter::Done SchemaEmitter::emit_object(const ObjectShape& object, RuleId rule) {
  return Members(*this, object, rule).emit();
}

}  // namespace tessera::text::grammar
