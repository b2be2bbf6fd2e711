#include "tessera/text/grammar/expression.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

constexpr size_t kFirstTableSize = 256;

constexpr uint64_t kAllFirsts = UINT64_MAX;

constexpr size_t kSortedPartsPerStep = 2;  // as ExpressionArena::kPartsPerStep

// A hash for tables in memory only.
uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

uint32_t one_less(uint32_t bound) { return bound == 0 || bound == kUnbounded ? bound : bound - 1; }

}  // namespace

ExpressionArena::ExpressionArena(size_t max_nodes) : max_nodes_(max_nodes), table_(kFirstTableSize, kNothing) {
  nodes_.push_back({.kind = Kind::nothing});
  nodes_.push_back({.kind = Kind::empty, .is_nullable = true, .hash = 1});
  nodes_.push_back({.kind = Kind::complement,
                    .is_nullable = true,
                    .is_plain = false,
                    .n_parts = 1,
                    .hash = 2,
                    .firsts = kAllFirsts});
  parts_.push_back(kNothing);
}

bool ExpressionArena::is_same(const Node& node, std::span<const Expression> node_parts, Expression other) const {
  const Node& seen = nodes_[other];
  return seen.hash == node.hash && seen.kind == node.kind && seen.a == node.a && seen.b == node.b &&
         std::ranges::equal(parts(seen), node_parts);
}

void ExpressionArena::grow_table() {
  table_.assign(table_.size() * 2, kNothing);
  const size_t mask = table_.size() - 1;
  for (Expression i = 3; i < nodes_.size(); ++i) {
    size_t at = nodes_[i].hash & mask;
    while (table_[at] != kNothing) at = (at + 1) & mask;
    table_[at] = i;
  }
}

// The node if it exists, or a new one.
Expression ExpressionArena::add(Node node, std::span<const Expression> node_parts) {
  spend_steps(1);
  if (n_steps_left_ == 0) return kNothing;
  uint64_t hash = mixed(static_cast<uint64_t>(node.kind), uint64_t{node.a} << 32 | node.b);
  for (const Expression part : node_parts) hash = mixed(hash, part);
  node.hash = hash;
  const size_t mask = table_.size() - 1;
  size_t at = node.hash & mask;
  for (; table_[at] != kNothing; at = (at + 1) & mask)
    if (is_same(node, node_parts, table_[at])) return table_[at];
  if (n_nodes() >= max_nodes_) {
    overflowed_ = true;
    return kNothing;
  }
  for (const Expression part : node_parts) {
    node.is_plain &= nodes_[part].is_plain;
    node.has_bytes |= nodes_[part].has_bytes;
    node.has_tag |= nodes_[part].has_tag;
    node.has_loop |= nodes_[part].has_loop;
  }
  node.has_loop |= !node.is_plain || (node.kind == Kind::repeat && node.b == kUnbounded);
  node.firsts = firsts_of(node, node_parts);
  node.shape = shape_of(node, node_parts);
  const auto added = static_cast<Expression>(nodes_.size());
  node.first_part = static_cast<uint32_t>(parts_.size());
  node.n_parts = static_cast<uint32_t>(node_parts.size());
  parts_.insert(parts_.end(), node_parts.begin(), node_parts.end());
  nodes_.push_back(node);
  table_[at] = added;
  if (nodes_.size() * 2 > table_.size()) grow_table();
  return added;
}

uint64_t ExpressionArena::firsts_of(const Node& node, std::span<const Expression> node_parts) const {
  uint64_t firsts = 0;
  switch (node.kind) {
    case Kind::bytes:
      for (const uint64_t word : sets_[node.a].words()) firsts |= word;
      return firsts;
    case Kind::concat:
      return nodes_[node_parts[0]].firsts | (is_nullable(node_parts[0]) ? nodes_[node_parts[1]].firsts : 0);
    case Kind::alternatives:
    case Kind::repeat:
      for (const Expression part : node_parts) firsts |= nodes_[part].firsts;
      return firsts;
    case Kind::intersection:
      firsts = kAllFirsts;
      for (const Expression part : node_parts) firsts &= nodes_[part].firsts;
      return firsts;
    case Kind::complement:
    case Kind::multiple:
      return kAllFirsts;
    case Kind::nothing:
    case Kind::empty:
    case Kind::tag:
      return 0;
  }
  return 0;
}

uint64_t ExpressionArena::shape_of(const Node& node, std::span<const Expression> node_parts) const {
  uint64_t shape = static_cast<uint64_t>(node.kind), sum = 0;
  if (node.kind != Kind::repeat) shape = mixed(shape, uint64_t{node.a} << 32 | node.b);
  for (const Expression part : node_parts) {
    if (node.kind == Kind::concat) shape = mixed(shape, nodes_[part].shape);
    sum += nodes_[part].shape;
  }
  return mixed(shape, sum);
}

Expression ExpressionArena::add_bytes(const ByteSet& set) {
  const uint32_t place = set_places_.try_emplace(set, static_cast<uint32_t>(sets_.size())).first->second;
  if (place == sets_.size()) sets_.push_back(set);
  return add({.kind = Kind::bytes, .has_bytes = true, .a = place}, {});
}

Expression ExpressionArena::bytes(const ByteSet& set) { return set.is_empty() ? kNothing : add_bytes(set); }

Expression ExpressionArena::literal(std::string_view text) {
  Expression rest = kEmpty;
  for (size_t i = text.size(); i-- > 0;) rest = concat(bytes(ByteSet::of(static_cast<uint8_t>(text[i]))), rest);
  return rest;
}

Expression ExpressionArena::concat(Expression first, Expression second) {
  if (first == kNothing || second == kNothing) return kNothing;
  if (first == kEmpty) return second;
  if (second == kEmpty) return first;
  if (first == kAnything && is_nullable(second) && is_plain(second) && !nodes_[second].has_tag) return kAnything;
  const auto pair_of = [&](Expression a, Expression b) {
    const Expression pair[] = {a, b};
    return add({.kind = Kind::concat, .is_nullable = is_nullable(a) && is_nullable(b)}, pair);
  };
  if (nodes_[first].kind != Kind::concat) return pair_of(first, second);
  std::vector<Expression> spine;
  for (; nodes_[first].kind == Kind::concat; first = parts(nodes_[first])[1]) spine.push_back(parts(nodes_[first])[0]);
  spine.push_back(first);
  spend_steps(spine.size() / kPartsPerStep);
  for (size_t i = spine.size(); i-- > 0;) second = pair_of(spine[i], second);
  return second;
}

Expression ExpressionArena::concat(std::span<const Expression> parts) {
  Expression rest = kEmpty;
  for (size_t i = parts.size(); i-- > 0;) rest = concat(parts[i], rest);
  return rest;
}

// Joins alternatives that differ only in the set of their first byte.
void ExpressionArena::merge_bytes(std::vector<Expression>& alternatives) {
  struct Headed {
    Expression rest, whole;
    uint32_t set;
  };
  std::vector<Headed> headed;
  const auto head_of = [&](Expression e) -> std::optional<Headed> {
    const Node& node = nodes_[e];
    if (node.kind == Kind::bytes) return Headed{kEmpty, e, node.a};
    if (node.kind != Kind::concat) return std::nullopt;
    const Node& first = nodes_[parts(node)[0]];
    if (first.kind != Kind::bytes) return std::nullopt;
    return Headed{parts(node)[1], e, first.a};
  };
  std::erase_if(alternatives, [&](Expression e) {
    const auto head = head_of(e);
    if (head) headed.push_back(*head);
    return head.has_value();
  });
  std::ranges::sort(headed, {}, &Headed::rest);
  for (size_t first = 0, last = 0; first < headed.size(); first = last) {
    ByteSet set;
    for (; last < headed.size() && headed[last].rest == headed[first].rest; ++last) set = set | sets_[headed[last].set];
    const bool is_alone = last == first + 1;
    alternatives.push_back(is_alone ? headed[first].whole : concat(bytes(set), headed[first].rest));
  }
}

Expression ExpressionArena::any_of(std::vector<Expression> alternatives) {
  std::erase(alternatives, kNothing);
  if (alternatives.empty()) return kNothing;
  if (alternatives.size() == 1) return alternatives[0];
  for (size_t i = 0; i < alternatives.size(); ++i) {  // the parts of alternatives are none themselves
    const Node& node = nodes_[alternatives[i]];
    if (node.kind != Kind::alternatives) continue;
    const auto inner = parts(node);
    alternatives[i] = inner[0];
    alternatives.insert(alternatives.end(), inner.begin() + 1, inner.end());
  }
  spend_steps(alternatives.size() / kSortedPartsPerStep);
  if (std::ranges::find(alternatives, kAnything) != alternatives.end()) return kAnything;
  merge_bytes(alternatives);
  std::ranges::sort(alternatives);
  const auto repeated = std::ranges::unique(alternatives);
  alternatives.erase(repeated.begin(), repeated.end());
  const auto nullable = [&](Expression e) { return is_nullable(e); };
  if (std::ranges::count_if(alternatives, nullable) > 1) std::erase(alternatives, kEmpty);
  if (alternatives.empty()) return kNothing;
  if (alternatives.size() == 1) return alternatives[0];
  return add({.kind = Kind::alternatives, .is_nullable = std::ranges::any_of(alternatives, nullable)}, alternatives);
}

Expression ExpressionArena::any_of(Expression a, Expression b) {
  if (a == kNothing || a == b) return b;
  return b == kNothing ? a : any_of(std::vector{a, b});
}

Expression ExpressionArena::any_of_joined(std::vector<Expression> alternatives, int n_levels) {
  const auto is_concat = [&](Expression e) { return nodes_[e].kind == Kind::concat; };
  if (n_levels == 0 || std::ranges::count_if(alternatives, is_concat) < 2) return any_of(std::move(alternatives));
  const auto head = [&](Expression e) { return parts(nodes_[e])[0]; };
  const auto concats = std::ranges::partition(alternatives, [&](Expression e) { return !is_concat(e); });
  std::vector<Expression> headed(concats.begin(), concats.end());
  alternatives.erase(concats.begin(), concats.end());
  std::ranges::sort(headed, {}, head);
  for (size_t first = 0, last = 0; first < headed.size(); first = last) {
    const Expression common = head(headed[first]);
    std::vector<Expression> rests;
    for (; last < headed.size() && head(headed[last]) == common; ++last)
      rests.push_back(parts(nodes_[headed[last]])[1]);
    const Expression rest = rests.size() == 1 ? rests[0] : any_of_joined(std::move(rests), n_levels - 1);
    alternatives.push_back(concat(common, rest));
  }
  return any_of(std::move(alternatives));
}

// Of two repetitions of a part whose bounds lie within one another, the narrower one is the intersection.
void ExpressionArena::drop_wider_repeats(std::vector<Expression>& all) const {
  const auto is_repeat = [&](Expression e) { return nodes_[e].kind == Kind::repeat; };
  if (std::ranges::count_if(all, is_repeat) < 2) return;
  const auto is_wider = [&](Expression a, Expression b) {
    const Node &wide = nodes_[a], &narrow = nodes_[b];
    return a != b && is_repeat(a) && is_repeat(b) && parts(wide)[0] == parts(narrow)[0] && wide.a <= narrow.a &&
           wide.b >= narrow.b;
  };
  std::erase_if(all, [&, copy = all](Expression e) {
    return std::ranges::any_of(copy, [&](Expression other) { return is_wider(e, other); });
  });
}

Expression ExpressionArena::all_of(std::vector<Expression> all) {
  for (size_t i = 0; i < all.size(); ++i) {
    const Node& node = nodes_[all[i]];
    if (node.kind != Kind::intersection) continue;
    const auto inner = parts(node);
    all[i] = inner[0];
    all.insert(all.end(), inner.begin() + 1, inner.end());
  }
  spend_steps(all.size() / kSortedPartsPerStep);
  std::erase(all, kAnything);
  std::ranges::sort(all);
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  drop_wider_repeats(all);
  if (all.empty()) return kAnything;
  if (all.size() == 1) return all[0];
  if (all[0] == kNothing) return kNothing;
  const auto nullable = [&](Expression e) { return is_nullable(e); };
  const bool is_nullable = std::ranges::all_of(all, nullable);
  if (all[0] == kEmpty) return is_nullable ? kEmpty : kNothing;
  const auto is_refuted = [&](Expression e) {
    return nodes_[e].kind == Kind::complement && std::ranges::binary_search(all, parts(nodes_[e])[0]);
  };
  if (std::ranges::any_of(all, is_refuted)) return kNothing;
  return add({.kind = Kind::intersection, .is_nullable = is_nullable, .is_plain = false}, all);
}

Expression ExpressionArena::all_of(Expression a, Expression b) {
  if (a == kNothing || b == kNothing) return kNothing;
  if (a == kAnything || a == b) return b;
  return b == kAnything ? a : all_of(std::vector{a, b});
}

Expression ExpressionArena::complement(Expression expression) {
  if (expression == kNothing) return kAnything;
  if (nodes_[expression].kind == Kind::complement) return parts(nodes_[expression])[0];
  return add({.kind = Kind::complement, .is_nullable = !is_nullable(expression), .is_plain = false},
             std::span(&expression, 1));
}

Expression ExpressionArena::repeat(Expression expression, uint32_t min, uint32_t max) {
  if (max == 0 || expression == kEmpty) return kEmpty;
  if (expression == kNothing) return min == 0 ? kEmpty : kNothing;
  if (expression == kAnything) return kAnything;
  if (is_nullable(expression)) min = 0;
  const Node& inner = nodes_[expression];
  if (inner.kind == Kind::repeat && inner.a <= 1 && max == kUnbounded) {
    // (x?)+ and (x*)+ are x*, and (x+){n,} is x{n,}.
    expression = parts(inner)[0];
    if (inner.a == 0) min = 0;
  }
  if (min == 1 && max == 1) return expression;
  if (nodes_[expression].kind == Kind::repeat && min == 0 && max == 1 && is_nullable(expression)) return expression;
  return add({.kind = Kind::repeat, .is_nullable = min == 0, .a = min, .b = max}, std::span(&expression, 1));
}

Expression ExpressionArena::multiple_of(uint32_t modulus, uint32_t remainder) {
  return add({.kind = Kind::multiple, .is_nullable = remainder == 0, .is_plain = false, .a = modulus, .b = remainder},
             {});
}

Expression ExpressionArena::tag(uint32_t value) {
  return add({.kind = Kind::tag, .is_nullable = true, .has_tag = true, .a = value}, {});
}

ExpressionArena::Form ExpressionArena::form(Expression expression) const {
  switch (nodes_[expression].kind) {
    case Kind::concat:
      return Form::sequence;
    case Kind::alternatives:
      return Form::alternatives;
    case Kind::repeat:
      return Form::repeat;
    default:
      return Form::other;
  }
}

void ExpressionArena::begin_visit() {
  stack_.clear();
  stamps_.resize(nodes_.size());
  values_.resize(nodes_.size());
  if (++stamp_ != 0) return;
  std::ranges::fill(stamps_, 0);
  stamp_ = 1;
}

// Whether the node is visited for the first time.
bool ExpressionArena::visit(Expression expression) { return std::exchange(stamps_[expression], stamp_) != stamp_; }

// The derivative from those of the parts.
Expression ExpressionArena::derive(Expression expression, uint8_t byte) {
  const Node node = nodes_[expression];  // a copy: new nodes may move the others
  const auto part = [&](size_t i) { return parts_[node.first_part + i]; };
  const auto value = [&](size_t i) { return may_begin_with(part(i), byte) ? values_[part(i)] : kNothing; };
  switch (node.kind) {
    case Kind::nothing:
    case Kind::empty:
    case Kind::tag:
      return kNothing;
    case Kind::bytes:
      return sets_[node.a].contains(byte) ? kEmpty : kNothing;
    case Kind::concat: {
      const Expression after_first = concat(value(0), part(1));
      return is_nullable(part(0)) ? any_of(after_first, value(1)) : after_first;
    }
    case Kind::alternatives: {
      std::vector<Expression> values;
      for (size_t i = 0; i < node.n_parts; ++i)
        if (const Expression v = value(i); v != kNothing) values.push_back(v);
      return any_of(std::move(values));
    }
    case Kind::intersection: {
      std::vector<Expression> values;
      for (size_t i = 0; i < node.n_parts; ++i) values.push_back(value(i));
      return all_of(std::move(values));
    }
    case Kind::complement:
      return complement(value(0));
    case Kind::repeat:
      return concat(value(0), repeat(part(0), one_less(node.a), one_less(node.b)));
    case Kind::multiple:
      if (byte == '.') return expression;  // a decimal point
      if (byte < '0' || byte > '9') return kNothing;
      return multiple_of(node.a, static_cast<uint32_t>((uint64_t{node.b} * 10 + (byte - '0')) % node.a));
  }
  return kNothing;
}

Expression ExpressionArena::derivative(Expression expression, uint8_t byte) {
  if (!may_begin_with(expression, byte) || n_steps_left_ == 0) return kNothing;
  begin_visit();
  stack_.push_back(expression);
  while (!stack_.empty()) {
    const Expression top = stack_.back();
    if (stamps_[top] == stamp_) {
      stack_.pop_back();
      continue;
    }
    const Node& node = nodes_[top];
    // The second part of a sequence counts only where the first may be empty.
    const bool is_first_only = node.kind == Kind::concat && !is_nullable(parts(node)[0]);
    const size_t n_above = stack_.size();
    for (const Expression part : parts(node).first(is_first_only ? 1 : node.n_parts)) {
      if (stamps_[part] == stamp_ || !may_begin_with(part, byte)) continue;
      const Known& known = known_derivative(part, byte);
      if (known.expression == part && known.byte == byte) {
        values_[part] = known.value;
        stamps_[part] = stamp_;
      } else {
        stack_.push_back(part);
      }
    }
    if (stack_.size() > n_above) continue;
    const Expression value = derive(top, byte);
    values_[top] = value;
    known_derivative(top, byte) = {top, value, byte};
    spend_steps(1);
    stamps_[top] = stamp_;
    stack_.pop_back();
  }
  return values_[expression];
}

void ExpressionArena::divide(Expression expression, ByteDivision& classes) {
  begin_visit();
  stack_.push_back(expression);
  size_t n_visited = 0;
  while (!stack_.empty()) {
    const Expression top = stack_.back();
    stack_.pop_back();
    if (!visit(top)) continue;
    const Node& node = nodes_[top];
    n_visited += node.kind == Kind::bytes ? 1 + classes.classes().size() / kPartsPerStep : 1;
    if (node.kind == Kind::bytes) classes.divide(sets_[node.a]);
    if (node.kind == Kind::multiple)
      for (const char c : std::string_view("0123456789.")) classes.divide(ByteSet::of(static_cast<uint8_t>(c)));
    const bool is_first_only = node.kind == Kind::concat && !is_nullable(parts(node)[0]);
    for (const Expression part : parts(node).first(is_first_only ? 1 : node.n_parts)) stack_.push_back(part);
  }
  spend_steps(n_visited / kPartsPerStep);
}

std::vector<uint32_t> ExpressionArena::tags(Expression expression) {
  std::vector<uint32_t> found;
  if (!is_nullable(expression)) return found;
  begin_visit();
  stack_.push_back(expression);
  while (!stack_.empty()) {
    const Expression top = stack_.back();
    stack_.pop_back();
    if (!is_nullable(top) || !visit(top)) continue;
    const Node& node = nodes_[top];
    if (node.kind == Kind::tag) found.push_back(node.a);
    stack_.insert(stack_.end(), parts(node).begin(), parts(node).end());
  }
  std::ranges::sort(found);
  return found;
}

// The nodes of an expression, each after its parts.
std::vector<Expression> ExpressionArena::parts_first(Expression expression) {
  std::vector<Expression> order;
  begin_visit();
  stack_.push_back(expression);
  while (!stack_.empty()) {
    const Expression top = stack_.back();
    const size_t n_above = stack_.size();
    if (stamps_[top] != stamp_)
      for (const Expression part : parts(nodes_[top]))
        if (stamps_[part] != stamp_) stack_.push_back(part);
    if (stack_.size() > n_above) continue;
    stack_.pop_back();
    if (visit(top)) order.push_back(top);
  }
  spend_steps(order.size() / kPartsPerStep);
  return order;
}

Expression ExpressionArena::copy_of(Expression expression, ExpressionArena& other) {
  std::unordered_map<Expression, Expression> copies;
  for (const Expression e : other.parts_first(expression)) {
    const Node& node = other.nodes_[e];
    std::vector<Expression> copied;
    for (const Expression part : other.parts(node)) copied.push_back(copies.at(part));
    const auto copy = [&] {
      switch (node.kind) {
        case Kind::nothing:
          return kNothing;
        case Kind::empty:
          return kEmpty;
        case Kind::bytes:
          return bytes(other.sets_[node.a]);
        case Kind::concat:
          return concat(copied[0], copied[1]);
        case Kind::alternatives:
          return any_of(copied);
        case Kind::intersection:
          return all_of(copied);
        case Kind::complement:
          return complement(copied[0]);
        case Kind::repeat:
          return repeat(copied[0], node.a, node.b);
        case Kind::multiple:
          return multiple_of(node.a, node.b);
        case Kind::tag:
          return tag(node.a);
      }
      return kNothing;
    };
    copies.emplace(e, copy());
  }
  return copies.at(expression);
}

std::vector<uint32_t> ExpressionArena::structure(Expression expression, std::vector<uint32_t>& tags) {
  std::vector<uint32_t> numbers;
  const std::vector<Expression> order = parts_first(expression);
  for (uint32_t i = 0; i < order.size(); ++i) {
    const Node& node = nodes_[order[i]];
    values_[order[i]] = i;
    numbers.insert(numbers.end(), {static_cast<uint32_t>(node.kind), node.n_parts});
    if (node.kind == Kind::bytes) {
      const auto words = sets_[node.a].words();
      for (const uint64_t word : words)
        numbers.insert(numbers.end(), {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)});
    } else if (node.kind == Kind::tag) {
      const auto known = std::ranges::find(tags, node.a);
      numbers.push_back(static_cast<uint32_t>(known - tags.begin()));
      if (known == tags.end()) tags.push_back(node.a);
    } else {
      numbers.insert(numbers.end(), {node.a, node.b});
    }
    for (const Expression part : parts(node)) numbers.push_back(values_[part]);
  }
  return numbers;
}

}  // namespace tessera::text::grammar
