// Numbers of the template language: Python's arithmetic and comparison on 64-bit integers and doubles, and their text.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/text/template/value.h"

namespace tessera::text::jinja {

enum class Arithmetic : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };

/// Computes a op b for two numbers. Errors: invalid_argument (division by zero, a result outside 64 bits, or none).
Result<Value> compute(Arithmetic op, const Value& a, const Value& b);

/// The negative of a number. Errors: invalid_argument.
Result<Value> negate(const Value& a);

/// Compares two numbers exactly; unordered if one is NaN.
std::partial_ordering compare_numbers(const Value& a, const Value& b);

/// As compare_numbers, with NaN as the least and equal to itself.
std::strong_ordering total_order(const Value& a, const Value& b);

/// Python's repr of a float: the shortest digits that read back, "1.0", "1e+16", "inf", "nan".
std::string real_text(double value);

/// The decimal text of a number; booleans are "True" and "False".
std::string number_text(const Value& value);

/// Reads an integer of a template or of text: digits with single '_' between them, after a sign and, for base 0 or the
/// same base, the prefix 0x, 0o or 0b. Base: 0 (by prefix) or 2 to 36. Errors: format; invalid_argument (more than 64
/// bits).
Result<int64_t> parse_integer(std::string_view text, int base);

/// Reads a decimal float with optional exponent, "inf" and "nan". Errors: format.
Result<double> parse_real(std::string_view text);

/// Converts an integral float to an integer, towards zero. Errors: invalid_argument (NaN, more than 64 bits).
Result<int64_t> truncate(double value);

/// Rounds to a number of decimals as Python's round(): exactly, halves to even.
double round_decimals(double value, int64_t decimals);

}  // namespace tessera::text::jinja
