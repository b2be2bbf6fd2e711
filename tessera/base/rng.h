// The random number generator of the project, except for sampler chains (sample/seeded_rng.h): PCG32 (O'Neill 2014,
// "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms"). The same seed gives the same numbers
// on every machine and build.
#pragma once

#include <cstdint>

namespace tessera {

class Rng {
 public:
  explicit Rng(uint64_t seed) {
    next_u32();
    state_ += seed;
    next_u32();
  }

  uint32_t next_u32() {
    const uint64_t old = state_;
    state_ = old * 6364136223846793005u + kIncrement;
    const auto xorshifted = static_cast<uint32_t>(((old >> 18) ^ old) >> 27);
    const auto rotation = static_cast<uint32_t>(old >> 59);
    return (xorshifted >> rotation) | (xorshifted << ((32 - rotation) & 31));
  }

  /// Uniform in [0, 1) with 53 random bits.
  double next_double() {
    const uint64_t high = next_u32() >> 5, low = next_u32() >> 6;
    return static_cast<double>((high << 26) | low) * 0x1p-53;
  }

  /// Uniform in [lo, hi]; hi itself occurs only through rounding.
  float next_float(float lo, float hi) { return lo + (hi - lo) * static_cast<float>(next_double()); }

 private:
  static constexpr uint64_t kIncrement = 1442695040888963407u;
  uint64_t state_ = 0;
};

}  // namespace tessera
