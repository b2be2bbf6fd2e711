// Checks for all kernels of one or two rows of floats: writes only to the output, an output that is also an input, and
// the same bits at every place of a row and on every vector instruction set.
#pragma once

#include <cmath>
#include <functional>

#include "tests/cpu/kernels_testing.h"

namespace tessera::testing {

/// A kernel of two rows of n floats; a kernel of one row ignores the second.
struct RowKernel {
  const char* name;
  std::function<void(const cpu::Kernels&, const float* a, const float* b, int64_t n, float* out)> run;
};
using RowKernels = std::vector<RowKernel>;

/// The output of a kernel. Checks that the kernel writes nothing else.
inline std::vector<float> run_row(const RowKernel& kernel, const cpu::Kernels& k, const std::vector<float>& a,
                                  const std::vector<float>& b) {
  Guarded<float> out(static_cast<int64_t>(a.size()));
  kernel.run(k, a.data(), b.data(), static_cast<int64_t>(a.size()), out.data());
  EXPECT_TRUE(out.intact()) << kernel.name << " on " << k.isa << " with n " << a.size();
  return out.values();
}

inline void expect_only_the_row_is_written(const RowKernels& kernels) {
  Rng rng(1);
  for (const cpu::Kernels* k : usable_kernels())
    for (const RowKernel& kernel : kernels)
      for (const int64_t n : kTailLengths) run_row(kernel, *k, random_floats(rng, n, 3), random_floats(rng, n, 3));
}

inline void expect_output_may_be_the_first_input(const RowKernels& kernels) {
  Rng rng(2);
  for (const cpu::Kernels* k : usable_kernels())
    for (const RowKernel& kernel : kernels)
      for (const int64_t n : kTailLengths) {
        std::vector<float> a = random_floats(rng, n, 3);
        const std::vector<float> b = random_floats(rng, n, 3), apart = run_row(kernel, *k, a, b);
        kernel.run(*k, a.data(), b.data(), n, a.data());
        EXPECT_TRUE(same_bits(a, apart)) << kernel.name << " on " << k->isa << " with n " << n;
      }
}

inline void expect_output_may_be_either_input(const RowKernels& kernels) {
  Rng rng(2);
  for (const cpu::Kernels* k : usable_kernels())
    for (const RowKernel& kernel : kernels)
      for (const int64_t n : kTailLengths) {
        std::vector<float> a = random_floats(rng, n, 3), b = random_floats(rng, n, 3);
        const std::vector<float> apart = run_row(kernel, *k, a, b), kept = a;
        kernel.run(*k, a.data(), b.data(), n, a.data());
        EXPECT_TRUE(same_bits(a, apart)) << kernel.name << " over a on " << k->isa << " with n " << n;
        kernel.run(*k, kept.data(), b.data(), n, b.data());
        EXPECT_TRUE(same_bits(b, apart)) << kernel.name << " over b on " << k->isa << " with n " << n;
      }
}

/// For kernels whose output element i depends only on element i of the inputs.
inline void expect_the_same_bits_at_any_place(const RowKernels& kernels) {
  Rng rng(3);
  const std::vector<float> a = random_floats(rng, 70, 9), b = random_floats(rng, 70, 9);
  for (const cpu::Kernels* k : usable_kernels())
    for (const RowKernel& kernel : kernels) {
      const std::vector<float> whole = run_row(kernel, *k, a, b);
      for (size_t i = 0; i < a.size(); ++i)
        EXPECT_TRUE(same_bits(run_row(kernel, *k, {a[i]}, {b[i]}), {whole[i]})) << kernel.name << " on " << k->isa;
    }
}

inline void expect_vector_sets_agree(const RowKernels& kernels) {
  const auto sets = vector_kernels();
  if (sets.empty()) GTEST_SKIP() << "fewer than two vector instruction sets are usable here";
  Rng rng(4);
  for (const RowKernel& kernel : kernels)
    for (const int64_t n : kTailLengths) {
      const std::vector<float> a = random_floats(rng, n, 20), b = random_floats(rng, n, 20);
      EXPECT_TRUE(same_bits(run_row(kernel, *sets[0], a, b), run_row(kernel, *sets[1], a, b)))
          << kernel.name << " n " << n;
    }
}

inline void expect_nan_stays_nan(const RowKernels& kernels) {
  const std::vector<float> nan{std::nanf("")}, one{1.0f};
  for (const cpu::Kernels* k : usable_kernels())
    for (const RowKernel& kernel : kernels)
      EXPECT_TRUE(std::isnan(run_row(kernel, *k, nan, one)[0])) << kernel.name << " on " << k->isa;
}

}  // namespace tessera::testing
