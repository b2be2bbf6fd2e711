// The transposition kernel of every usable instruction set.
#include <algorithm>

#include "tests/cpu/kernels_testing.h"

namespace tessera {
namespace {

using namespace testing;

using cpu::Kernels;

TEST(TransposeKernel, MovesEachElementAndWritesNothingElse) {
  Rng rng(6);
  for (const Kernels* k : usable_kernels())
    for (const int64_t n : {1, 5, 15, 16, 17, 40})
      for (const int64_t n_rows : {1, 3, 16, 19, 33}) {
        const int64_t x_stride = n + 3, out_stride = n_rows + 5;
        const std::vector<float> x = random_floats(rng, n_rows * x_stride, 1);
        Guarded<float> out(n * out_stride);
        std::fill_n(out.data(), n * out_stride, 7.0f);
        k->transpose(x.data(), x_stride, n, n_rows, out.data(), out_stride);
        EXPECT_TRUE(out.intact());
        const std::vector<float> got = out.values();
        for (int64_t i = 0; i < n; ++i)
          for (int64_t row = 0; row < out_stride; ++row)
            ASSERT_EQ(got[static_cast<size_t>(i * out_stride + row)],
                      row < n_rows ? x[static_cast<size_t>(row * x_stride + i)] : 7.0f)
                << k->isa << " " << n << " x " << n_rows;
      }
}

}  // namespace
}  // namespace tessera
