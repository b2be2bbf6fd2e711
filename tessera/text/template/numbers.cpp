#include "tessera/text/template/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera::text::jinja {
namespace {

constexpr double kTwoTo63 = 0x1p63;

std::unexpected<Error> out_of_range() { return fail(ErrorCode::invalid_argument, "number out of range"); }

Result<Value> checked(std::optional<int64_t> value) {
  if (!value) return out_of_range();
  return Value::integer(*value);
}

// Python rounds the quotient down and gives the remainder the sign of the divisor.
Result<Value> divide_integers(Arithmetic op, int64_t a, int64_t b) {
  if (a == std::numeric_limits<int64_t>::min() && b == -1)
    return op == Arithmetic::modulo ? checked(0) : checked(std::nullopt);
  const int64_t quotient = a / b, remainder = a % b;
  const bool is_rounded_up = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == Arithmetic::modulo) return Value::integer(is_rounded_up ? remainder + b : remainder);
  return Value::integer(is_rounded_up ? quotient - 1 : quotient);
}

Result<Value> power_of_integers(int64_t base, int64_t exponent) {
  std::optional<int64_t> result = 1, square = base;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      if (!square) return out_of_range();
      result = checked_mul(*result, *square);
      if (!result) return out_of_range();
    }
    if (square) square = checked_mul(*square, *square);
  }
  return Value::integer(*result);
}

Result<Value> compute_integers(Arithmetic op, int64_t a, int64_t b) {
  switch (op) {
    case Arithmetic::add:
      return checked(checked_add(a, b));
    case Arithmetic::subtract: {
      int64_t difference = 0;
      return checked(__builtin_sub_overflow(a, b, &difference) ? std::nullopt : std::optional(difference));
    }
    case Arithmetic::multiply:
      return checked(checked_mul(a, b));
    case Arithmetic::divide:
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Arithmetic::floor_divide:
    case Arithmetic::modulo:
      return divide_integers(op, a, b);
    case Arithmetic::power:
      break;
  }
  if (b < 0) return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
  return power_of_integers(a, b);
}

Value divide_reals(Arithmetic op, double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (op == Arithmetic::modulo) return Value::real(remainder == 0 ? std::copysign(0.0, b) : remainder);
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  // Without rounding errors the quotient is a whole number. The nearest whole number removes these errors.
  const double floored = std::floor(quotient);
  return Value::real(quotient - floored > 0.5 ? floored + 1 : floored);
}

Result<Value> compute_reals(Arithmetic op, double a, double b) {
  switch (op) {
    case Arithmetic::add:
      return Value::real(a + b);
    case Arithmetic::subtract:
      return Value::real(a - b);
    case Arithmetic::multiply:
      return Value::real(a * b);
    case Arithmetic::divide:
      return Value::real(a / b);
    case Arithmetic::floor_divide:
    case Arithmetic::modulo:
      return divide_reals(op, a, b);
    case Arithmetic::power:
      break;
  }
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b))
    return fail(ErrorCode::invalid_argument, "power of a negative number with a fraction as exponent");
  return Value::real(result);
}

// Digits and decimal exponent of the shortest text that reads back: 0.DIGITS * 10^exponent.
struct Decimal {
  std::string digits;
  int point;
};

Decimal shortest_decimal(double magnitude) {
  std::array<char, 40> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, std::chars_format::scientific);
  const std::string_view text(buffer.data(), to_size(end.ptr - buffer.data()));
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  return {digits, exponent + 1};
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 36;
}

int base_of_prefix(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

std::unexpected<Error> no_number() { return fail(ErrorCode::format, "not a number"); }

// Removes '_' between digits. Empty if one stands elsewhere.
std::optional<std::string> without_separators(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const bool is_between = i > 0 && i + 1 < text.size() && digit_of(text[i - 1]) < 36 && digit_of(text[i + 1]) < 36;
    if (!is_between) return std::nullopt;
  }
  return digits;
}

// Exact, also where a conversion to the other type would round.
std::partial_ordering compare_mixed(int64_t integer, double real) {
  if (std::isnan(real)) return std::partial_ordering::unordered;
  if (real >= kTwoTo63) return std::partial_ordering::less;
  if (real < -kTwoTo63) return std::partial_ordering::greater;
  const double whole = std::trunc(real);
  if (const auto order = integer <=> static_cast<int64_t>(whole); order != 0) return order;
  return 0.0 <=> real - whole;
}

}  // namespace

Result<Value> compute(Arithmetic op, const Value& a, const Value& b) {
  const bool divides = op == Arithmetic::divide || op == Arithmetic::floor_divide || op == Arithmetic::modulo;
  const bool inverts = op == Arithmetic::power && b.as_real() < 0 && a.as_real() == 0;
  if ((divides && b.as_real() == 0) || inverts) return fail(ErrorCode::invalid_argument, "division by zero");
  if (a.is_integer() && b.is_integer()) return compute_integers(op, a.as_integer(), b.as_integer());
  return compute_reals(op, a.as_real(), b.as_real());
}

Result<Value> negate(const Value& a) {
  if (a.is(Kind::real)) return Value::real(-a.as_real());
  return compute_integers(Arithmetic::subtract, 0, a.as_integer());
}

std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  if (a.is_integer())
    return b.is_integer() ? std::partial_ordering(a.as_integer() <=> b.as_integer())
                          : compare_mixed(a.as_integer(), b.as_real());
  return b.is_integer() ? 0 <=> compare_mixed(b.as_integer(), a.as_real()) : a.as_real() <=> b.as_real();
}

std::strong_ordering total_order(const Value& a, const Value& b) {
  const auto order = compare_numbers(a, b);
  if (order == std::partial_ordering::unordered) return std::isnan(b.as_real()) <=> std::isnan(a.as_real());
  if (order < 0) return std::strong_ordering::less;
  return order > 0 ? std::strong_ordering::greater : std::strong_ordering::equal;
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return text + "inf";
  auto [digits, point] = shortest_decimal(std::abs(value));
  const int n_digits = static_cast<int>(digits.size());
  if (value != 0 && (point > 16 || point < -3)) {
    text += digits[0];
    if (n_digits > 1) text.append(".").append(digits, 1);
    return text + fmt::format("e{:+03d}", point - 1);
  }
  if (point <= 0) return fmt::format("{}0.{:0>{}}", text, digits, n_digits - point);
  if (point >= n_digits) return fmt::format("{}{:0<{}}.0", text, digits, point);
  digits.insert(to_size(point), 1, '.');
  return text + digits;
}

std::string number_text(const Value& value) {
  if (value.is(Kind::real)) return real_text(value.as_real());
  if (value.is(Kind::boolean)) return value.as_boolean() ? "True" : "False";
  return fmt::format("{}", value.as_integer());
}

Result<int64_t> parse_integer(std::string_view text, int base) {
  if (base != 0 && (base < 2 || base > 36)) return fail(ErrorCode::invalid_argument, "base {}, want 2 to 36", base);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (const int prefix = base_of_prefix(text); prefix != 0 && (base == 0 || base == prefix)) {
    base = prefix;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  const auto digits = without_separators(text);
  if (!digits || digits->empty()) return no_number();
  if (base == 0 && digits->size() > 1 && digits->front() == '0' && digits->find_first_not_of('0') != std::string::npos)
    return no_number();
  uint64_t magnitude = 0;
  const auto end = digits->data() + digits->size();
  const auto [stop, error] = std::from_chars(digits->data(), end, magnitude, base == 0 ? 10 : base);
  if (stop != end || error == std::errc::invalid_argument) return no_number();
  const uint64_t limit = uint64_t{std::numeric_limits<int64_t>::max()} + (is_negative ? 1 : 0);
  if (error != std::errc() || magnitude > limit) return out_of_range();
  return static_cast<int64_t>(is_negative ? 0 - magnitude : magnitude);
}

Result<double> parse_real(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto digits = without_separators(text);
  if (!digits || digits->empty() || digits->starts_with("+")) return no_number();
  double value = 0;
  const auto end = digits->data() + digits->size();
  const auto [stop, error] = std::from_chars(digits->data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) return no_number();
  if (error == std::errc::result_out_of_range) {  // from_chars leaves the value: too large, or too near to zero
    const bool is_tiny = digits->find("e-") != std::string::npos || digits->find("E-") != std::string::npos;
    const double magnitude = is_tiny ? 0.0 : std::numeric_limits<double>::infinity();
    return digits->starts_with('-') ? -magnitude : magnitude;
  }
  return value;
}

Result<int64_t> truncate(double value) {
  if (!(value < kTwoTo63 && value >= -kTwoTo63)) return out_of_range();
  return static_cast<int64_t>(value);
}

double round_decimals(double value, int64_t decimals) {
  constexpr int64_t kMostDecimals = 323, kLeast = -308;  // of a double
  if (!std::isfinite(value) || decimals > kMostDecimals) return value;
  if (decimals < kLeast) return std::copysign(0.0, value);
  std::array<char, 700> buffer;
  if (decimals >= 0) {
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed,
                                   static_cast<int>(decimals));
    std::from_chars(buffer.data(), end.ptr, value);
    return value;
  }
  const double unit = std::pow(10.0, static_cast<double>(-decimals));
  return std::nearbyint(value / unit) * unit;
}

}  // namespace tessera::text::jinja
