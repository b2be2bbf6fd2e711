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

  /// Numbers, without an exponent where bounds ask for one (plain writing).
  Expression all(bool is_bounded) const;
  Expression integers() const;
  /// Numbers above a bound, or not below it. Intersect with all(true); complements give the other two.
  Expression above(const Decimal& bound) const;
  Expression at_least(const Decimal& bound) const;
  /// Multiples of a factor above 0. Nothing if the factor, scaled to an integer, is above 10,000.
  std::optional<Expression> multiples(const Decimal& factor) const;

  static constexpr uint32_t kMaxFactor = 10'000;

 private:
  Expression digit(char first, char last) const;
  Expression fraction_digits() const;
  Expression magnitude(const Decimal& bound, bool is_strict) const;
  Expression scientific(const Decimal& bound, bool is_strict) const;
  Expression exponents(int64_t above) const;
  Expression whole(uint32_t max_digits) const;

  ExpressionArena* arena_;
  JsonWriting writing_;
};

}  // namespace tessera::text::grammar
