// Rules of objects. Members come in the order of the schema, then others; or in any order.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "tessera/text/grammar/regex_language.h"
#include "tessera/text/grammar/schema/emit.h"
#include "tessera/text/grammar/schema/text_set.h"

namespace tessera::text::grammar {
namespace {

using Property = ObjectShape::Property;

// Each doubles the ways to read a member.
constexpr size_t kMaxSome = 3;

}  // namespace

class SchemaEmitter::Members {
 public:
  Members(SchemaEmitter& emitter, const ObjectShape& object, RuleId rule, const MemberSyntax& syntax,
          const TaggedMembers* tagged)
      : emitter_(emitter),
        algebra_(*emitter.algebra_),
        arena_(*emitter.arena_),
        rules_(*emitter.rules_),
        object_(object),
        rule_(rule),
        syntax_(syntax),
        tagged_(tagged),
        builder_(arena_, rules_, rule, *emitter.find_control_) {
    if (tagged != nullptr) return;
    open_ = emitter.symbol(syntax.open);
    close_ = emitter.symbol(syntax.close);
    close_empty_ = arena_.literal(syntax.close);
    before_name_ = arena_.literal(syntax.quote);
    after_comma_ = arena_.concat(emitter.symbol(","), before_name_);
    after_name_ = arena_.concat(before_name_, emitter.symbol(syntax.name_end));
  }

  Done emit() {
    if (object_.some.size() > kMaxSome)
      return std::unexpected(refused("not", "more than 3 conditions that some member must break"));
    for (const Property& property : object_.properties) {
      if (property.term != Terms::kNever)
        properties_.push_back(property);
      else if (property.is_required)
        return {};  // no object
    }
    if (const Done done = find_names(); !done) return done;
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

  // The names that the syntax can write.
  Done find_names() {
    // No reader of these forms reads more than 256 bytes.
    const Expression any_name = arena_.repeat(algebra_.spelling().any_code_point(), 1, 64);
    if (tagged_ != nullptr) {
      std::vector<std::string> ends;
      for (const TaggedMembers::NameEnd& end : tagged_->name_ends) ends.push_back(end.mark);
      names_ = arena_.all_of(text_before(arena_, ends), any_name);
    } else if (!syntax_.name_pattern.empty()) {
      const auto spelling = [&](const CodePointSet& set) { return algebra_.spelling().code_points(set); };
      names_ = arena_.all_of(language_of(*RegexTree::parse(syntax_.name_pattern), MatchPlace::whole, spelling, arena_),
                             any_name);
    }
    names_ = emitter_.string_text(names_);
    if (names_ == ExpressionArena::kAnything) return {};
    for (const Property& property : properties_)
      if (property.is_required && !algebra_.has_name(names_, property.name))
        return std::unexpected(
            refused("required", fmt::format("the model's form of calls cannot write the name \"{}\"", property.name)));
    return {};
  }

  Done find_ways() {
    TextSet listed(arena_);
    for (const Property& property : object_.properties) listed.add(algebra_.spelling().characters(property.name));
    const Expression unlisted = arena_.complement(listed.expression());
    for (size_t i = 0; i < properties_.size(); ++i) {
      const Property& property = properties_[i];
      if (names_ != ExpressionArena::kAnything && !algebra_.has_name(names_, property.name)) continue;
      if (const Done done = add_ways({i, algebra_.spelling().text(property.name), property.term, 0}); !done)
        return done;
    }
    for (const ObjectShape::Names& names : object_.others) {
      if (names.term == Terms::kNever) continue;
      const Expression written = names_ == ExpressionArena::kAnything ? unlisted : arena_.all_of(unlisted, names_);
      if (const Done done = add_ways({properties_.size(), arena_.all_of(names.language, written), names.term, 0});
          !done)
        return done;
    }
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
  Done add_member(RuleState from, const Way& way, bool has_comma, RuleState to, uint32_t adds = 0) {
    if (tagged_ != nullptr) return add_tagged_member(from, way, to, adds);
    const RuleState value = before_value(way.term, to);
    if (is_captured(way)) {
      add_name(from, {has_comma ? after_comma_ : before_name_, way.name, after_name_, true}, way, value, adds);
      return {};
    }
    const auto [written, is_new] = written_.try_emplace(way.name);
    if (is_new) {
      const Expression rest = arena_.concat(way.name, after_name_);
      written->second = {arena_.concat(before_name_, rest), arena_.concat(after_comma_, rest)};
    }
    emitter_.add_lexeme(from, has_comma ? written->second.second : written->second.first, value, adds);
    return {};
  }

  // The state from which a value leads to a state. It is the same wherever the name before it began.
  RuleState before_value(Term term, RuleState to) {
    const auto [found, is_new] = before_values_.try_emplace(uint64_t{term} << 32 | to, 0);
    if (is_new) {
      found->second = rules_.add_state(rule_);
      emitter_.add_value(found->second, term, to);
    }
    return found->second;
  }

  // Whether the name may not come again.
  bool is_captured(const Way& way) const { return way.property == properties_.size() && object_.max > 1; }

  void add_name(RuleState from, const Capture& name, const Way& way, RuleState to, uint32_t adds) {
    const Edge edge = {.kind = Edge::Kind::lexeme, .value = 0, .target = to, .adds = adds};
    if (is_captured(way)) {
      rules_.add_capture(from, name, edge, arena_);
    } else {
      emitter_.add_lexeme(from, arena_.concat(std::vector{name.before, name.inside, name.after}), to, adds);
    }
  }

  // A counter is asked before the first mark, so a mark is open only where a name is.
  Done add_tagged_member(RuleState from, const Way& way, RuleState to, uint32_t adds) {
    const bool is_listed = way.property < properties_.size();
    const std::string name = is_listed ? properties_[way.property].name : "";
    std::string value_end = tagged_->value_end;
    if (const size_t place = value_end.find("{}"); place != std::string::npos) {
      if (!is_listed) return {};  // only a name that is known can be written again
      value_end.replace(place, 2, name);
    }
    const RuleState begin = rules_.add_state(rule_);
    emitter_.add_lexeme(from, tagged_->has_space ? builder_.space() : ExpressionArena::kEmpty, begin, adds);
    const RuleState before = builder_.after_mark(begin, tagged_->name_begin);
    for (const TaggedMembers::NameEnd& end : tagged_->name_ends) {
      if (!end.typing) continue;
      // A lexeme with the mark after the name has one end.
      const bool is_text = !builder_.has_control(end.mark);
      RuleState value = rules_.add_state(rule_);
      const Expression after = is_text ? arena_.literal(end.mark) : ExpressionArena::kEmpty;
      add_name(before, {ExpressionArena::kEmpty, way.name, after, true}, way, value, 0);
      if (!is_text) value = builder_.after_mark(value, end.mark);
      if (tagged_->has_value_space) value = builder_.after_space(value);
      value = builder_.after_mark(value, tagged_->value_begin);
      const RuleState at_end = rules_.add_state(rule_);
      if (const Done done = add_tagged_value(value, way.term, end.typing(name), at_end); !done) return done;
      builder_.add_step(builder_.after_mark(at_end, value_end), to);
    }
    return {};
  }

  Done add_tagged_value(RuleState from, Term term, const TaggedTyping& typing, RuleState to) {
    if (typing.may_be_json()) {
      const RuleId rule = emitter_.json_->rule_of(term, Part::without_strings);
      rules_.add_edge(from, {.kind = Edge::Kind::call, .value = rule, .target = to});
    }
    const auto shapes = emitter_.forms_->of(term);
    if (!shapes) return std::unexpected(shapes.error());
    std::vector<Expression> found;
    for (const Shape& shape : **shapes)
      if (shape.type == ShapeType::string) found.push_back(shape.text);
    if (found.empty() || !typing.may_be_string) return {};
    const Expression texts = arena_.all_of(arena_.any_of(std::move(found)), plain_texts(typing));
    Expression written = arena_.all_of(texts, text_before(arena_, tagged_->reader_end));
    if (!tagged_->quote_begin.empty()) {
      const Expression begin = arena_.literal(tagged_->quote_begin), end = arena_.literal(tagged_->quote_end);
      const Expression quoted = arena_.all_of(texts, text_before(arena_, tagged_->quote_end));
      const Expression looks_quoted = arena_.concat(begin, ExpressionArena::kAnything);
      written = arena_.any_of(arena_.all_of(written, arena_.complement(looks_quoted)),
                              arena_.concat(std::vector{begin, quoted, end}));
    }
    if (!algebra_.is_empty(written)) emitter_.add_lexeme(from, written, to);
    return {};
  }

  // The texts that a reader does not take as JSON.
  Expression plain_texts(const TaggedTyping& typing) {
    std::vector<Expression> json;
    const auto add_words = [&](bool is_read, std::initializer_list<std::string_view> words) {
      for (const std::string_view word : words)
        if (is_read) json.push_back(arena_.concat(arena_.literal(word), builder_.any_space()));
    };
    const auto add_begin = [&](bool is_read, std::string_view begin) {
      if (is_read) json.push_back(arena_.concat(arena_.literal(begin), ExpressionArena::kAnything));
    };
    add_words(typing.null, {"null"});
    add_words(typing.boolean, {"true", "false", "True", "False"});
    if (typing.number)
      json.push_back(arena_.concat(NumberLanguage(arena_, JsonWriting::any).all(), builder_.any_space()));
    add_begin(typing.array, "[");
    add_begin(typing.object, "{");
    add_begin(typing.string, "\"");
    if (json.empty()) return ExpressionArena::kAnything;
    return arena_.complement(arena_.concat(builder_.any_space(), arena_.any_of(std::move(json))));
  }

  // The first counter is the number of members. Each property has one, so that it comes once, and so has each condition
  // of `some`. A comma is one lexeme with the name after it: so it is open only where a name is.
  Done emit_in_any_order() {
    if (object_.max != kUnbounded && !object_.some.empty() && (!properties_.empty() || object_.some.size() > 1))
      return std::unexpected(refused("maxProperties", "beside a condition on some member it is not supported"));
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
    emitter_.add_lexeme(start, open_, first);
    emitter_.add_lexeme(first, close_empty_, end, 0, true);
    emitter_.add_lexeme(after, close_, end, 0, true);
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
      if (const Done done = add_member(first, way, false, after, list); !done) return done;
      if (const Done done = add_member(after, way, true, after, list); !done) return done;
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
      return std::unexpected(refused("maxProperties", "too many states"));
    const RuleState start = rules_.rule(rule_).start, end = rules_.rule(rule_).end;
    const RuleState first = rules_.add_state(rule_);
    emitter_.add_lexeme(start, open_, first);
    if (const Done done = add_members(first, false, {0, 0, 0}); !done) return done;
    if (may_close({0, 0, 0})) emitter_.add_lexeme(first, close_empty_, end);
    for (size_t at = 0; at < places_.size(); ++at) {
      const Place place = places_[at];
      const RuleState state = after_.at(place);
      if (may_close(place)) emitter_.add_lexeme(state, close_, end);
      if (const Done done = add_members(state, true, place); !done) return done;
      if (rules_.n_states() > kMaxStates || rules_.n_edges() > kMaxEdges)
        return std::unexpected(refused("properties", "too many states"));
      if (!arena_.has_steps()) return {};
    }
    return {};
  }

  // Adds the members that may come at a place, from a state.
  Done add_members(RuleState from, bool has_comma, const Place& place) {
    const auto [next, count, some] = place;
    if (object_.max != kUnbounded && count >= object_.max) return {};
    // Properties may be left out up to the next required one.
    size_t last = next;
    while (last < properties_.size() && !properties_[last].is_required) ++last;
    for (const Way& way : ways_) {
      if (way.property < next || way.property > last) continue;
      const size_t then = std::min(way.property + 1, properties_.size());
      const uint32_t most = object_.max != kUnbounded ? object_.max : object_.min;
      const RuleState to = state_after({then, std::min(count + 1, most), some | way.some});
      if (const Done done = add_member(from, way, has_comma, to); !done) return done;
    }
    return {};
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
      places_.push_back(place);
    }
    return found->second;
  }

  SchemaEmitter& emitter_;
  ShapeAlgebra& algebra_;
  ExpressionArena& arena_;
  Rules& rules_;
  const ObjectShape& object_;
  RuleId rule_;
  const MemberSyntax& syntax_;
  const TaggedMembers* tagged_;
  RuleBuilder builder_;
  Expression names_ = ExpressionArena::kAnything;  // that can be written
  Expression open_ = ExpressionArena::kEmpty, close_ = ExpressionArena::kEmpty, close_empty_ = ExpressionArena::kEmpty;
  Expression before_name_ = ExpressionArena::kEmpty, after_comma_ = ExpressionArena::kEmpty,
             after_name_ = ExpressionArena::kEmpty;
  std::unordered_map<Expression, std::pair<Expression, Expression>>
      written_;                                            // by name, without and with a comma before it
  std::unordered_map<uint64_t, RuleState> before_values_;  // by term and state after it
  std::vector<Property> properties_;                       // that may occur
  std::vector<Way> ways_;
  std::map<Place, RuleState> after_;  // by place after a member
  std::vector<Place> places_;
};

SchemaEmitter::Done SchemaEmitter::emit_object(const ObjectShape& object, RuleId rule, const MemberSyntax& syntax,
                                               const TaggedMembers* tagged) {
  return Members(*this, object, rule, syntax, tagged).emit();
}

}  // namespace tessera::text::grammar
