// Expressions that differ only in bounds of repetitions.
#include <algorithm>
#include <map>

#include "tessera/text/grammar/expression.h"

namespace tessera::text::grammar {

Expression ExpressionArena::clipped(Expression expression, uint32_t bound) {
  if (!is_plain(expression)) return expression;
  for (const Expression e : parts_first(expression)) {
    const Node node = nodes_[e];  // a copy: new nodes may move the others
    const auto value = [&](size_t i) { return values_[parts_[node.first_part + i]]; };
    values_[e] = e;
    if (node.kind == Kind::concat) values_[e] = concat(value(0), value(1));
    if (node.kind == Kind::repeat) {
      const bool is_clipped = node.b >= bound && is_wide(parts_[node.first_part]);
      values_[e] = repeat(value(0), is_clipped ? std::min(node.a, 1U) : node.a, is_clipped ? kUnbounded : node.b);
    }
    if (node.kind != Kind::alternatives) continue;
    std::vector<Expression> alternatives;
    for (size_t i = 0; i < node.n_parts; ++i) alternatives.push_back(value(i));
    values_[e] = any_of(std::move(alternatives));
  }
  return values_[expression];
}

ExpressionArena::WithoutMaxima ExpressionArena::without_maxima(Expression expression, uint32_t bound) {
  constexpr size_t kMaxSearched = 64;
  // Parts after those that have them. A complement is left alone: with more texts inside, it has fewer.
  std::vector<Expression> order = {expression};
  for (size_t i = 0; i < order.size() && order.size() < kMaxSearched; ++i) {
    const Node& node = nodes_[order[i]];
    if (node.is_plain && node.kind != Kind::repeat) continue;
    const size_t n_searched = node.kind == Kind::concat ? 1 : node.n_parts;
    if (node.kind == Kind::concat || node.kind == Kind::alternatives || node.kind == Kind::intersection)
      for (const Expression part : parts(node).first(n_searched)) order.push_back(part);
  }
  std::map<Expression, Expression> changed;
  const auto value = [&](Expression part) {
    const auto found = changed.find(part);
    return found == changed.end() ? part : found->second;
  };
  for (size_t i = order.size(); i-- > 0;) {
    const Node node = nodes_[order[i]];  // a copy: new nodes may move the others
    std::vector<Expression> values;
    for (size_t k = 0; k < node.n_parts; ++k) values.push_back(value(parts_[node.first_part + k]));
    Expression made = order[i];
    const bool is_clipped = node.kind == Kind::repeat && node.b >= bound && node.b != kUnbounded &&
                            is_wide(parts_[node.first_part]) && order[i] != expression;
    if (is_clipped)
      made = repeat(parts_[node.first_part], node.a, kUnbounded);
    else if (values.empty() || std::ranges::equal(values, parts(nodes_[order[i]])))
      continue;
    else if (node.kind == Kind::concat)
      made = concat(values[0], values[1]);
    else if (node.kind == Kind::alternatives)
      made = any_of(std::move(values));
    else if (node.kind == Kind::intersection)
      made = all_of(std::move(values));
    changed[order[i]] = made;
  }
  WithoutMaxima result{value(expression)};
  for (const auto& [before, after] : changed)
    if (nodes_[before].kind == Kind::intersection) result.changed.push_back(after);
  return result;
}

ByteSet ExpressionArena::first_bytes(Expression expression) {
  ByteSet bytes;
  size_t n_visited = 0;
  begin_visit();
  stack_.push_back(expression);
  while (!stack_.empty()) {
    const Expression top = stack_.back();
    stack_.pop_back();
    if (!visit(top)) continue;
    ++n_visited;
    const Node& node = nodes_[top];
    if (node.kind == Kind::bytes) bytes = bytes | sets_[node.a];
    if (node.kind == Kind::complement || node.kind == Kind::multiple) bytes = ByteSet::range(0, 255);
    const bool is_first_only = node.kind == Kind::concat && !is_nullable(parts(node)[0]);
    for (const Expression part : parts(node).first(is_first_only ? 1 : node.n_parts)) stack_.push_back(part);
  }
  spend_steps(n_visited / kPartsPerStep);
  return bytes;
}

std::optional<ExpressionArena::CommonTexts> ExpressionArena::common_texts(Expression a, Expression b) {
  constexpr size_t kMaxPairs = 1000;
  struct Pair {
    Expression ours, theirs;
    size_t around;     // place of the pair that these are parts of
    Expression after;  // what follows them there
  };
  CommonTexts common;
  std::vector<Pair> pairs = {{a, b, 0, kEmpty}};
  const auto compare = [&](uint32_t bound, uint32_t other) {
    return bound == other ? SIZE_MAX : size_t{std::min(bound, other)} - std::min({bound, other, 1U});
  };
  // Adds the bytes that end a repetition. Returns false if it can end without one.
  const auto find_ends = [&](size_t place) {
    for (; place != 0; place = pairs[place].around) {
      if (nodes_[pairs[pairs[place].around].ours].kind == Kind::repeat) return false;
      common.ends = common.ends | first_bytes(pairs[place].after);
      if (!is_nullable(pairs[place].after)) return true;
    }
    return false;
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Pair pair = pairs[i];
    if (pair.ours == pair.theirs) continue;
    const Node& node = nodes_[pair.ours];
    const Node& other = nodes_[pair.theirs];
    const bool is_alike = node.shape == other.shape && node.kind == other.kind && node.n_parts == other.n_parts;
    if (!is_alike || node.n_parts == 0 || node.kind == Kind::complement || pairs.size() > kMaxPairs)
      return std::nullopt;
    if (node.kind == Kind::repeat) {
      const size_t of_min = compare(node.a, other.a), of_max = compare(node.b, other.b);
      common.n_bytes = std::min({common.n_bytes, of_min, of_max});
      common.n_bytes_without = std::min(common.n_bytes_without, of_max);
      if (of_min != SIZE_MAX && !find_ends(i)) common.n_bytes_without = std::min(common.n_bytes_without, of_min);
    }
    std::vector<Expression> ours(parts(node).begin(), parts(node).end());
    std::vector<Expression> theirs(parts(other).begin(), parts(other).end());
    if (node.kind == Kind::alternatives || node.kind == Kind::intersection) {
      std::ranges::sort(ours, {}, [&](Expression e) { return nodes_[e].shape; });
      std::ranges::sort(theirs, {}, [&](Expression e) { return nodes_[e].shape; });
    }
    for (size_t k = 0; k < ours.size(); ++k)
      pairs.push_back({ours[k], theirs[k], i, node.kind == Kind::concat && k == 0 ? ours[1] : kEmpty});
  }
  return common;
}

}  // namespace tessera::text::grammar
