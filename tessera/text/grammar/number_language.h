// The texts of JSON numbers whose value has a property. Bounds and factors are exact decimals of any length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/text/grammar/expression.h"
#include "tessera/text/grammar/json_spelling.h"

namespace tessera::text::grammar {

/// A decimal number: integer and fraction digits without superfluous zeros, "0" and "" for zero.
struct Decimal {
  bool is_negative = false;
  std::string integer = "0", fraction{};

  /// From the text of a JSON number; nothing if it is none, or has more than 1000 digits.
  static std::optional<Decimal> parse(std::string_view text);

  bool is_zero() const { return integer == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};

class NumberLanguage {
 public:
  NumberLanguage(ExpressionArena& arena, JsonWriting writing) : arena_(&arena), writing_(writing) {}

  /// Numbers: decimals, and those with an exponent that have one digit other than 0 before the point. All languages
  /// below have either all texts of a value that this one has, or none of them.
  Expression all() const;
  Expression integers() const;
  Expression above(const Decimal& bound) const;
  Expression at_least(const Decimal& bound) const;
  Expression equal(const Decimal& value) const;

  /// Integers as the writing wants them. Part of integers().
  Expression written_integers() const;
  /// Numbers without an exponent.
  Expression decimals() const;
  /// Multiples of a factor above 0, without an exponent. Nothing if the factor, scaled to an integer, is above 10,000.
  std::optional<Expression> multiples(const Decimal& factor) const;

  static constexpr uint32_t kMaxFactor = 10'000;

 private:
  Expression digit(char first, char last) const;
  Expression fraction_digits() const;
  Expression exponent_letter() const;
  Expression sizes(const Decimal& bound, bool is_strict) const;
  Expression magnitude(const Decimal& bound, bool is_strict) const;
  Expression scientific(const Decimal& bound, bool is_strict) const;
  Expression exponents(int64_t above) const;
  Expression whole(uint32_t max_digits) const;

  ExpressionArena* arena_;
  JsonWriting writing_;
};

}  // namespace tessera::text::grammar
