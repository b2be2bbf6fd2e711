// Helpers for the tests of the CPU kernels: all usable instruction sets, buffers with guards, random floats.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/cpu/dispatch.h"
#include "tessera/isa/sets.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// The kernels of every usable instruction set, scalar first.
inline std::vector<const cpu::Kernels*> usable_kernels() {
  std::vector<const cpu::Kernels*> all;
  for (const std::string& isa : isa::usable_isas()) {
    const auto kernels = cpu::select_kernels(isa);
    EXPECT_OK(kernels);
    if (kernels) all.push_back(*kernels);
  }
  return all;
}

/// The vector sets, which agree bit for bit; empty unless there are at least two.
inline std::vector<const cpu::Kernels*> vector_kernels() {
  std::vector<const cpu::Kernels*> all;
  for (const cpu::Kernels* kernels : usable_kernels()) {
    if (std::string(kernels->isa) != "scalar") all.push_back(kernels);
  }
  if (all.size() < 2) all.clear();
  return all;
}

/// `n` values of T between guard bytes. intact() returns whether the guards are unchanged.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t n) : n_(static_cast<size_t>(n)), bytes_(n_ * sizeof(T) + 2 * kGuard, kPattern) {}

  T* data() { return reinterpret_cast<T*>(bytes_.data() + kGuard); }
  std::vector<T> values() const {
    std::vector<T> copy(n_);
    if (n_ > 0) std::memcpy(copy.data(), bytes_.data() + kGuard, n_ * sizeof(T));
    return copy;
  }
  bool intact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] != kPattern || bytes_[bytes_.size() - 1 - i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kPattern = 0xa5;
  size_t n_;
  std::vector<uint8_t> bytes_;
};

inline std::vector<float> random_floats(Rng& rng, int64_t n, float limit) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = rng.next_float(-limit, limit);
  return values;
}

/// Compares bits. Unlike with ==, -0 differs from 0, and a NaN equals itself.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// The distance from 1 to the next float.
inline constexpr double kUlp = 0x1p-23;

/// Lengths around the 16 lanes and the 64 of four accumulators.
inline constexpr int64_t kTailLengths[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 127, 130, 1000};

/// Runs a kernel of one or two operands; `numbers` are its parameters.
inline void unary(const cpu::Kernels& k, cpu::Elementwise op, const float* x, int64_t n, float* out,
                  std::initializer_list<float> numbers = {}) {
  k.elementwise[static_cast<size_t>(op)]({.a = x, .params = numbers.begin(), .n = n, .out = out});
}
inline void binary(const cpu::Kernels& k, cpu::Elementwise op, const float* a, const float* b, int64_t n, float* out,
                   std::initializer_list<float> numbers = {}) {
  k.elementwise[static_cast<size_t>(op)]({.a = a, .b = b, .params = numbers.begin(), .n = n, .out = out});
}

}  // namespace tessera::testing
