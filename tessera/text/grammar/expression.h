// Regular languages of bytes as expressions. Equal expressions are one node of an arena. The derivative by a byte is
// the language of what may follow that byte (Brzozowski 1964), so expressions are the states of an automaton that is
// made while a text is read. Intersection, complement and counted repetition cost no expansion.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/grammar/byte_set.h"

namespace tessera::text::grammar {

/// A node of an ExpressionArena.
using Expression = uint32_t;

inline constexpr uint32_t kUnbounded = UINT32_MAX;  // of a repetition
inline constexpr uint32_t kMaxRepeat = 1'000'000;

class ExpressionArena {
 public:
  static constexpr Expression kNothing = 0;   // no text
  static constexpr Expression kEmpty = 1;     // the empty text
  static constexpr Expression kAnything = 2;  // every text of bytes

  /// max_nodes: further nodes are kNothing, and overflowed() tells it. A node counts more if it has many parts.
  explicit ExpressionArena(size_t max_nodes);

  Expression bytes(const ByteSet& set);
  Expression literal(std::string_view text);
  Expression concat(Expression first, Expression second);
  Expression concat(std::span<const Expression> parts);
  Expression any_of(std::vector<Expression> alternatives);
  /// The same, where alternatives that begin with the same parts, up to n_levels of them, share these.
  Expression any_of_joined(std::vector<Expression> alternatives, int n_levels);
  Expression any_of(Expression a, Expression b);
  Expression all_of(std::vector<Expression> all);
  Expression all_of(Expression a, Expression b);
  Expression complement(Expression expression);
  /// min <= max; max may be kUnbounded.
  Expression repeat(Expression expression, uint32_t min, uint32_t max);
  Expression optional(Expression expression) { return repeat(expression, 0, 1); }
  /// Decimal digits of a number whose remainder is 0, if the digits before them had this remainder.
  Expression multiple_of(uint32_t modulus, uint32_t remainder = 0);
  /// The empty text, and a mark that tags() returns. It may only be the last part of the alternatives of a whole
  /// expression, not a part of a complement, an intersection or a repetition.
  Expression tag(uint32_t value);

  /// Whether the empty text is in the language.
  bool is_nullable(Expression expression) const { return nodes_[expression].is_nullable; }

  /// Whether no intersection, complement or multiple is part of it. A plain expression has no text only if it is
  /// kNothing.
  bool is_plain(Expression expression) const { return nodes_[expression].is_plain; }

  /// Whether a text other than the empty one is in the language of a plain expression.
  bool has_bytes(Expression expression) const { return nodes_[expression].has_bytes; }

  /// The bytes that texts begin with, or more if parts are not plain.
  ByteSet first_bytes(Expression expression);
  /// Whether a text may begin with a byte. True for more bytes than first_bytes(), and faster.
  bool may_begin_with(Expression expression, uint8_t byte) const {
    return ((nodes_[expression].firsts >> (byte % 64)) & 1) != 0;
  }

  /// Whether an expression can be its own derivative, as far as its parts tell.
  bool has_loop(Expression expression) const { return nodes_[expression].has_loop; }

  /// How the texts of an expression depend on its parts.
  enum class Form : uint8_t {
    sequence,      // a text of each part
    alternatives,  // a text of one part
    repeat,        // texts of the part, perhaps none
    other,
  };
  Form form(Expression expression) const;
  std::span<const Expression> parts(Expression expression) const { return parts(nodes_[expression]); }

  /// The texts that follow a byte.
  Expression derivative(Expression expression, uint8_t byte);

  /// Divides the classes so that two bytes of one class have the same derivative.
  void divide(Expression expression, ByteDivision& classes);

  /// The tags that the empty text has, sorted.
  std::vector<uint32_t> tags(Expression expression);

  /// The same expression, but repetitions whose maximum is not less than `bound` have none, and a minimum of at most 1.
  /// Only repetitions of parts that can begin with many bytes are changed, and only expressions that are plain.
  Expression clipped(Expression expression, uint32_t bound);

  struct WithoutMaxima {
    Expression expression;
    std::vector<Expression> changed{};  // its intersections that have fewer maxima than before
  };
  /// The same for expressions that are not plain: repetitions within intersections have no maximum if theirs is not
  /// less than `bound`. Only the first parts of the expression are searched for such intersections.
  WithoutMaxima without_maxima(Expression expression, uint32_t bound);

  /// Up to how many bytes two expressions have the same texts. Plain expressions also have the same beginnings of
  /// longer texts. Others have them up to a length that is shorter by the bytes that complete a text of an intersection
  /// whose parts differ.
  struct CommonTexts {
    size_t n_bytes = SIZE_MAX;
    size_t n_bytes_without = SIZE_MAX;  // for texts without these bytes, which end repetitions
    ByteSet ends{};
  };
  /// Nothing unless they differ only in bounds of repetitions.
  std::optional<CommonTexts> common_texts(Expression a, Expression b);

  /// Numbers that only expressions of the same form have, in any arena, whatever the values of their tags. Adds these
  /// to `tags` in the order of the numbers.
  std::vector<uint32_t> structure(Expression expression, std::vector<uint32_t>& tags);

  /// The same expression of another arena.
  Expression copy_of(Expression expression, ExpressionArena& other);

  /// Sets the work that may be done from now on. Each derivative of a node is a step, and so is each node that is asked
  /// for; nodes with many parts cost more. Those who use the arena spend steps for their own work. When all are spent,
  /// overflowed() is true, and derivatives and nodes are kNothing.
  void limit_steps(uint64_t n_steps) { n_steps_left_ = n_steps; }
  void spend_steps(uint64_t n_steps) {
    overflowed_ |= n_steps >= n_steps_left_;
    n_steps_left_ -= std::min(n_steps, n_steps_left_);
  }
  uint64_t n_steps_left() const { return n_steps_left_; }
  bool has_steps() const { return n_steps_left_ > 0; }

  /// The expression in a notation like that of GBNF, cut after about max_bytes.
  std::string text_of(Expression expression, size_t max_bytes) const;

  size_t n_nodes() const { return std::max(nodes_.size(), parts_.size() / kPartsPerNode); }
  bool overflowed() const { return overflowed_; }

 private:
  static constexpr size_t kPartsPerNode = 16;
  static constexpr size_t kPartsPerStep = 8;  // take about the time of a derivative
  enum class Kind : uint8_t {
    nothing,
    empty,
    bytes,         // a: place in sets_
    concat,        // of 2 parts; the first is no concat
    alternatives,  // sorted
    intersection,  // sorted
    complement,
    repeat,    // a: min, b: max
    multiple,  // a: modulus, b: remainder
    tag,       // a: value
  };
  struct Node {
    Kind kind;
    bool is_nullable = false;
    bool is_plain = true;
    bool has_bytes = false;  // of a plain expression
    bool has_tag = false;
    bool has_loop = false;  // a repetition without a bound, or a part that is not plain
    uint32_t a = 0, b = 0;
    uint32_t first_part = 0, n_parts = 0;  // in parts_
    uint64_t hash = 0;
    uint64_t firsts = 0;  // bit byte % 64 is set for each byte with which a text can begin
    uint64_t shape = 0;   // a hash without the bounds of repetitions, which is the same for parts in any order
  };

  std::span<const Expression> parts(const Node& node) const {
    return std::span(parts_).subspan(node.first_part, node.n_parts);
  }
  Expression add(Node node, std::span<const Expression> parts);
  Expression add_bytes(const ByteSet& set);
  uint64_t shape_of(const Node& node, std::span<const Expression> parts) const;
  bool is_same(const Node& node, std::span<const Expression> node_parts, Expression other) const;
  void grow_table();
  void drop_wider_repeats(std::vector<Expression>& all) const;
  void merge_bytes(std::vector<Expression>& alternatives);
  Expression derive(Expression expression, uint8_t byte);
  // A derivative that was found before. States of intersections have many parts in common.
  struct Known {
    Expression expression = kNothing, value = kNothing;
    uint8_t byte = 0;
  };
  static constexpr int kKnownBits = 12;
  // The place of a derivative, which may hold another one.
  Known& known_derivative(Expression expression, uint8_t byte) {
    const uint32_t hash = (expression << 8 | byte) * 0x9e3779b1U;
    return known_[hash >> (32 - kKnownBits)];
  }
  uint64_t firsts_of(const Node& node, std::span<const Expression> parts) const;
  // Whether texts can begin with many bytes. Bounds of other repetitions matter to few tokens.
  bool is_wide(Expression expression) const { return std::popcount(nodes_[expression].firsts) >= 32; }
  void begin_visit();
  bool visit(Expression expression);
  std::vector<Expression> parts_first(Expression expression);

  size_t max_nodes_;
  bool overflowed_ = false;
  uint64_t n_steps_left_ = UINT64_MAX;
  std::vector<Node> nodes_;
  std::vector<Expression> parts_;
  std::vector<ByteSet> sets_;
  std::map<ByteSet, uint32_t> set_places_;
  std::vector<Known> known_ = std::vector<Known>(size_t{1} << kKnownBits);
  std::vector<Expression> table_;  // open addressing by hash; kNothing is a free place

  // Of the walk in progress: a node is visited if its stamp is the present one.
  std::vector<uint32_t> stamps_;
  std::vector<Expression> values_;  // derivatives
  std::vector<Expression> stack_;
  uint32_t stamp_ = 0;
};

}  // namespace tessera::text::grammar
