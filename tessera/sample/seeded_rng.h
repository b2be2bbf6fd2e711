// The random numbers of sampler chains: MT19937 (Matsumoto and Nishimura 1998), which the C++ standard specifies bit
// for bit. llama.cpp draws with it too, so equal seeds give equal texts in both programs. Other parts of the project
// use base/rng.h, whose state is smaller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

namespace tessera::sample {

class SeededRng {
 public:
  /// Only the low 32 bits of the seed count.
  explicit SeededRng(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}

  /// Uniform in [0, 1). Uses two outputs, the low half first.
  double next_double() {
    const auto low = static_cast<double>(engine_());
    const auto high = static_cast<double>(engine_());
    return std::min((low + high * 0x1p32) * 0x1p-64, 1 - 0x1p-53);  // the sum may round up to 2^64
  }

  /// Uniform in [0, 1). Uses one output.
  float next_float() { return std::min(static_cast<float>(engine_()) * 0x1p-32f, 1 - 0x1p-24f); }

 private:
  std::mt19937 engine_;
};

}  // namespace tessera::sample
