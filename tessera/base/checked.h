// Overflow-checked arithmetic for every number that comes from outside. A size is computed with it before it is used to
// allocate or index.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <utility>

namespace tessera {

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// Rounds a up to a multiple of step (> 0). Empty if the result is not representable.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_round_up(T a, T step) {
  const auto padded = checked_add<T>(a, step - 1);
  if (!padded) return std::nullopt;
  return *padded / step * step;
}

/// Converts the value to To. Empty if it is out of To's range.
template <std::integral To, std::integral From>
constexpr std::optional<To> checked_cast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

/// ceil(a / b) for a >= 0, b > 0.
template <std::integral T>
constexpr T div_ceil(T a, T b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// Rounds a up to a multiple of b. For trusted values only: a + b must not overflow.
template <std::integral T>
constexpr T round_up(T a, T b) {
  return div_ceil(a, b) * b;
}

}  // namespace tessera
