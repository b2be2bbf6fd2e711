#include "tessera/text/grammar/number_language.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/text/grammar/ascii.h"

namespace tessera::text::grammar {
namespace {

constexpr int64_t kMaxDigits = 1000;             // of a bound, before or after the point
constexpr uint32_t kPlainDigits = 20;            // before the point
constexpr uint32_t kPlainFraction = 17;          // digits after the point
constexpr uint32_t kPlainExponent = 3;           // digits
constexpr uint32_t kMaxScientificFraction = 40;  // digits after the point of a number with an exponent

std::string_view take_digits(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal number;
  if (text.starts_with('-')) {
    number.is_negative = true;
    text.remove_prefix(1);
  }
  const std::string_view whole = take_digits(text);
  if (whole.empty()) return std::nullopt;
  std::string_view part;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    part = take_digits(text);
    if (part.empty()) return std::nullopt;
  }
  int64_t exponent = 0;
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto parsed = std::from_chars(text.begin(), text.end(), exponent);
    if (parsed.ec != std::errc() || parsed.ptr != text.end()) return std::nullopt;
    text = {};
  }
  if (!text.empty()) return std::nullopt;
  std::string digits = std::string(whole) + std::string(part);
  const size_t n_leading = std::min(digits.find_first_not_of('0'), digits.size());
  if (n_leading == digits.size()) return Decimal();  // zero, also "-0"
  const auto n_whole = static_cast<int64_t>(whole.size());
  if (exponent > kMaxDigits || exponent < -kMaxDigits || n_whole + exponent > kMaxDigits ||
      static_cast<int64_t>(part.size()) - exponent > kMaxDigits)
    return std::nullopt;
  const int64_t point = n_whole + exponent;  // place of the decimal point in the digits
  if (point <= 0) digits.insert(0, to_size(1 - point), '0');
  if (point > static_cast<int64_t>(digits.size())) digits.append(to_size(point) - digits.size(), '0');
  const size_t at = to_size(std::max<int64_t>(point, 1));
  number.integer = digits.substr(0, at);
  number.fraction = digits.substr(at);
  number.integer.erase(0, std::min(number.integer.find_first_not_of('0'), number.integer.size() - 1));
  number.fraction.erase(number.fraction.find_last_not_of('0') + 1);
  return number;
}

Expression NumberLanguage::digit(char first, char last) const {
  if (last < first) return ExpressionArena::kNothing;
  return arena_->bytes(ByteSet::range(static_cast<uint8_t>(first), static_cast<uint8_t>(last)));
}

// 0, or digits that begin with another one.
Expression NumberLanguage::whole(uint32_t max_digits) const {
  const uint32_t more = max_digits == kUnbounded ? kUnbounded : max_digits - 1;
  return arena_->any_of(digit('0', '0'), arena_->concat(digit('1', '9'), arena_->repeat(digit('0', '9'), 0, more)));
}

// A point and digits, or nothing.
Expression NumberLanguage::fraction_digits() const {
  return arena_->optional(arena_->concat(arena_->literal("."), arena_->repeat(digit('0', '9'), 1, kUnbounded)));
}

Expression NumberLanguage::exponent_letter() const {
  ByteSet letters;
  for (const char c : {'e', 'E'}) letters.add(static_cast<uint8_t>(c));
  return arena_->bytes(letters);
}

Expression NumberLanguage::all() const {
  const bool is_plain = writing_ == JsonWriting::plain;
  const Expression digits = digit('0', '9'), minus = arena_->optional(arena_->literal("-"));
  const Expression fraction = arena_->optional(arena_->concat(
      arena_->literal("."), arena_->repeat(digits, 1, is_plain ? kPlainFraction : kMaxScientificFraction)));
  ByteSet signs;
  for (const char c : {'+', '-'}) signs.add(static_cast<uint8_t>(c));
  const Expression exponent =
      arena_->concat(std::vector{exponent_letter(), arena_->optional(arena_->bytes(signs)),
                                 arena_->repeat(digits, 1, is_plain ? kPlainExponent : kUnbounded)});
  const Expression decimal =
      is_plain ? arena_->concat(whole(kPlainDigits), fraction) : arena_->concat(whole(kUnbounded), fraction_digits());
  const Expression scientific = arena_->concat(std::vector{digit('1', '9'), fraction, exponent});
  return arena_->concat(minus, arena_->any_of(decimal, scientific));
}

Expression NumberLanguage::integers() const {
  const Expression minus = arena_->optional(arena_->literal("-")), point = arena_->literal(".");
  const Expression zeros = arena_->repeat(digit('0', '0'), 0, kUnbounded);
  const Expression no_fraction = arena_->optional(arena_->concat(std::vector{point, digit('0', '0'), zeros}));
  std::vector<Expression> found = {arena_->concat(whole(kUnbounded), no_fraction)};
  // With n digits after the point, the last of them not 0, an exponent of at least n.
  for (uint32_t n = 0; n <= kMaxScientificFraction; ++n) {
    const Expression more =
        n == 0
            ? no_fraction
            : arena_->concat(std::vector{point, arena_->repeat(digit('0', '9'), n - 1, n - 1), digit('1', '9'), zeros});
    found.push_back(
        arena_->concat(std::vector{digit('1', '9'), more, exponent_letter(), exponents(static_cast<int64_t>(n) - 1)}));
  }
  return arena_->concat(minus, arena_->any_of(std::move(found)));
}

Expression NumberLanguage::equal(const Decimal& value) const {
  return arena_->all_of({all(), at_least(value), arena_->complement(above(value))});
}

Expression NumberLanguage::written_integers() const {
  if (writing_ == JsonWriting::any) return integers();
  return arena_->concat(arena_->optional(arena_->literal("-")), whole(kPlainDigits));
}

// Numbers without a sign that are above the bound's magnitude, or equal to it unless strict.
Expression NumberLanguage::magnitude(const Decimal& bound, bool is_strict) const {
  const Expression digits = digit('0', '9'), any_digits = arena_->repeat(digits, 0, kUnbounded);
  const std::string& integer = bound.integer;
  const auto n_digits = static_cast<uint32_t>(integer.size());
  std::vector<Expression> found;
  // More digits before the point.
  const Expression longer = arena_->concat(digit('1', '9'), arena_->repeat(digits, n_digits, kUnbounded));
  found.push_back(arena_->concat(longer, fraction_digits()));
  // Equally many, and the first digit that differs is greater.
  for (size_t i = 0; i < integer.size(); ++i) {
    const auto n_rest = static_cast<uint32_t>(integer.size() - i - 1);
    const Expression greater =
        arena_->concat(digit(static_cast<char>(integer[i] + 1), '9'), arena_->repeat(digits, n_rest, n_rest));
    found.push_back(arena_->concat(std::vector{arena_->literal(integer.substr(0, i)), greater, fraction_digits()}));
  }
  // The same before the point.
  const Expression nonzero = arena_->concat(std::vector{any_digits, digit('1', '9'), any_digits});
  std::vector<Expression> fractions;  // after the point
  for (size_t i = 0; i < bound.fraction.size(); ++i) {
    const Expression greater = digit(static_cast<char>(bound.fraction[i] + 1), '9');
    fractions.push_back(arena_->concat(std::vector{arena_->literal(bound.fraction.substr(0, i)), greater, any_digits}));
  }
  const Expression same = arena_->literal(bound.fraction);
  Expression point = arena_->literal(".");
  fractions.push_back(arena_->concat(same, is_strict ? nonzero : any_digits));
  Expression after = arena_->concat(point, arena_->any_of(std::move(fractions)));
  if (bound.fraction.empty() && !is_strict) after = fraction_digits();
  found.push_back(arena_->concat(arena_->literal(integer), after));
  return arena_->any_of(std::move(found));
}

// A sign, zeros and digits: exponents above a number.
Expression NumberLanguage::exponents(int64_t above) const {
  const Expression zeros = arena_->repeat(digit('0', '0'), 0, kUnbounded);
  const Expression plus = arena_->optional(arena_->literal("+")), minus = arena_->literal("-");
  const Expression digits = arena_->repeat(digit('0', '9'), 1, kUnbounded);
  // Whole numbers above `number`, from the language of decimals.
  const auto whole_above = [&](int64_t number) {
    const Decimal bound = *Decimal::parse(std::to_string(number));
    return arena_->concat(zeros, arena_->all_of(magnitude(bound, true), whole(kUnbounded)));
  };
  if (above >= 0) return arena_->concat(plus, whole_above(above));
  // Above a negative number: all that are not negative, and those whose magnitude is smaller.
  const Expression smaller = arena_->all_of(digits, arena_->complement(whole_above(-above - 1)));
  return arena_->any_of(arena_->concat(plus, digits), arena_->concat(minus, smaller));
}

// As magnitude(), for numbers with an exponent and one digit other than 0 before the point.
Expression NumberLanguage::scientific(const Decimal& bound, bool is_strict) const {
  const Expression letter = exponent_letter();
  const Expression mantissas = arena_->concat(digit('1', '9'), fraction_digits());
  if (bound.is_zero()) {
    const Expression any_exponent = exponents(INT32_MIN);
    return arena_->concat(std::vector{mantissas, letter, any_exponent});
  }
  // The bound as mantissa and exponent.
  std::string digits = bound.integer + bound.fraction;
  auto exponent = static_cast<int64_t>(bound.integer.size()) - 1;
  const size_t n_zeros = digits.find_first_not_of('0');
  digits.erase(0, n_zeros);
  exponent -= static_cast<int64_t>(n_zeros);
  Decimal mantissa = {.integer = digits.substr(0, 1), .fraction = digits.substr(1)};
  mantissa.fraction.erase(mantissa.fraction.find_last_not_of('0') + 1);
  const Expression same_exponent = arena_->all_of(exponents(exponent - 1), arena_->complement(exponents(exponent)));
  const Expression greater = arena_->all_of(mantissas, magnitude(mantissa, is_strict));
  return arena_->any_of(arena_->concat(std::vector{mantissas, letter, exponents(exponent)}),
                        arena_->concat(std::vector{greater, letter, same_exponent}));
}

// Numbers without a sign whose value is above that of the bound without its sign, or equal to it unless strict.
Expression NumberLanguage::sizes(const Decimal& bound, bool is_strict) const {
  return arena_->any_of(magnitude(bound, is_strict), scientific(bound, is_strict));
}

Expression NumberLanguage::above(const Decimal& bound) const {
  if (!bound.is_negative) return sizes(bound, true);
  // Numbers that are not negative, and negative ones that are smaller without their sign.
  const Expression all_sizes = sizes({}, false), smaller = arena_->complement(sizes(bound, false));
  return arena_->any_of(all_sizes, arena_->concat(arena_->literal("-"), arena_->all_of(all_sizes, smaller)));
}

Expression NumberLanguage::at_least(const Decimal& bound) const {
  const Expression all_sizes = sizes({}, false), no_larger = arena_->complement(sizes(bound, true));
  const Expression negative = arena_->concat(arena_->literal("-"), arena_->all_of(all_sizes, no_larger));
  if (bound.is_negative) return arena_->any_of(all_sizes, negative);
  return bound.is_zero() ? arena_->any_of(all_sizes, negative) : sizes(bound, false);
}

Expression NumberLanguage::decimals() const {
  const Expression minus = arena_->optional(arena_->literal("-"));
  return arena_->concat(std::vector{minus, whole(kUnbounded), fraction_digits()});
}

std::optional<Expression> NumberLanguage::multiples(const Decimal& factor) const {
  // The factor as an integer: times 10 for each digit after the point.
  const std::string digits = factor.integer + factor.fraction;
  uint64_t scaled = 0;
  for (const char c : digits) {
    scaled = scaled * 10 + static_cast<uint64_t>(c - '0');
    if (scaled > kMaxFactor) return std::nullopt;
  }
  if (scaled == 0) return std::nullopt;
  const auto n_fraction = static_cast<uint32_t>(factor.fraction.size());
  const Expression minus = arena_->optional(arena_->literal("-"));
  const Expression point = arena_->literal("."), digit_ = digit('0', '9');
  const Expression zeros = arena_->repeat(digit('0', '0'), 0, kUnbounded);
  // With j digits after the point, the digits are a number that is 10^j times the value.
  std::vector<Expression> found;
  uint64_t modulus = scaled;
  for (uint32_t j = n_fraction + 1; j-- > 0;) {
    const Expression after = j == 0 ? ExpressionArena::kEmpty : arena_->concat(point, arena_->repeat(digit_, j, j));
    const Expression divided =
        arena_->all_of(arena_->concat(whole(kUnbounded), after), arena_->multiple_of(static_cast<uint32_t>(modulus)));
    Expression tail = ExpressionArena::kEmpty;
    if (j == n_fraction)  // further digits are zeros
      tail = j == 0 ? arena_->optional(arena_->concat(point, arena_->concat(digit('0', '0'), zeros))) : zeros;
    found.push_back(arena_->concat(std::vector{minus, divided, tail}));
    // A text with one digit fewer after the point stands for ten times its digits, in units of the last place.
    modulus /= modulus % 10 == 0 ? 10 : modulus % 5 == 0 ? 5 : modulus % 2 == 0 ? 2 : 1;
  }
  return arena_->any_of(std::move(found));
}

}  // namespace tessera::text::grammar
