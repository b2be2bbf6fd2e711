// Exponentials with the bits of PyTorch, so that decays which are stored as logarithms become the ones that the model
// was trained with. A polynomial on [-ln 2 / 2, ln 2 / 2] (Shibata and Petrogalli 2020, "SLEEF: A Portable Vectorized
// Library of C Standard Mathematical Functions"), within one unit of the last place.
#pragma once

#include <cmath>

namespace tessera::convert {

inline float torch_exp(float x) {
  constexpr float kLargest = 80.0f;  // beyond, results are near the ends of the range
  if (!(std::abs(x) < kLargest)) return std::exp(x);
  constexpr float kPerLn2 = 1.44269504f, kLn2High = 0.693145751953125f, kLn2Low = 1.42860677e-6f;
  constexpr float kCoefficients[] = {0.00139304355f, 0.00833336077f, 0.0416664854f, 0.166666672f, 0.5f};
  const float n = std::rint(x * kPerLn2);
  float rest = std::fma(n, -kLn2High, x);
  rest = std::fma(n, -kLn2Low, rest);
  float sum = 0.000198527618f;
  for (const float coefficient : kCoefficients) sum = std::fma(sum, rest, coefficient);
  sum = 1.0f + std::fma(rest * rest, sum, rest);
  return std::ldexp(sum, static_cast<int>(n));
}

}  // namespace tessera::convert
