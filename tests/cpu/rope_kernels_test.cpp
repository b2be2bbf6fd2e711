// The RoPE kernels of every usable instruction set, against their definition.
#include <functional>

#include "tests/cpu/row_kernels_testing.h"

namespace tessera {
namespace {

using namespace testing;

using cpu::Kernels;

const RowKernels& rope_kernels() {
  static const RowKernels kernels = {
      {"rope_adjacent",
       [](const Kernels& k, auto a, auto b, auto n, auto out) { k.rope_adjacent(a, b, n / 2 * 2, n, out); }},
      {"rope_halves",
       [](const Kernels& k, auto a, auto b, auto n, auto out) { k.rope_halves(a, b, n / 2 * 2, n, out); }},
  };
  return kernels;
}

TEST(RopeKernels, WriteOnlyTheirRowAtEveryLength) { expect_only_the_row_is_written(rope_kernels()); }

TEST(RopeKernels, OutputMayBeTheInput) { expect_output_may_be_the_first_input(rope_kernels()); }

TEST(RopeKernels, VectorSetsGiveTheSameBits) { expect_vector_sets_agree(rope_kernels()); }

/// The partner of element i and the index of the pair, by the definitions of the two layouts of RoPE.
struct RopePair {
  int64_t first, second;
};

std::vector<float> rope_reference(const std::vector<float>& x, const std::vector<float>& cos_sin, int64_t n_rot,
                                  const std::function<RopePair(int64_t)>& pair_of) {
  std::vector<float> out = x;
  for (int64_t i = 0; i < n_rot / 2; ++i) {
    const auto [first, second] = pair_of(i);
    const float a = x[static_cast<size_t>(first)], b = x[static_cast<size_t>(second)];
    const float c = cos_sin[static_cast<size_t>(2 * i)], s = cos_sin[static_cast<size_t>(2 * i + 1)];
    out[static_cast<size_t>(first)] = a * c - b * s;
    out[static_cast<size_t>(second)] = a * s + b * c;
  }
  return out;
}

TEST(Rope, AdjacentRotatesNeighboursAndCopiesTheRest) {
  Rng rng(9);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n_rot : {0, 2, 6, 32, 34, 64, 128}) {
      const std::vector<float> x = random_floats(rng, n_rot + 5, 2), cos_sin = random_floats(rng, n_rot, 1);
      std::vector<float> out(x.size());
      k->rope_adjacent(x.data(), cos_sin.data(), n_rot, n_rot + 5, out.data());
      EXPECT_EQ(out, rope_reference(x, cos_sin, n_rot,
                                    [](int64_t i) {
                                      return RopePair{2 * i, 2 * i + 1};
                                    }))
          << k->isa << " n_rot " << n_rot;
    }
  }
}

TEST(Rope, HalvesRotatesAcrossTheHalvesAndCopiesTheRest) {
  Rng rng(10);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n_rot : {0, 2, 6, 32, 34, 64, 128}) {
      const std::vector<float> x = random_floats(rng, n_rot + 5, 2), cos_sin = random_floats(rng, n_rot, 1);
      std::vector<float> out(x.size());
      k->rope_halves(x.data(), cos_sin.data(), n_rot, n_rot + 5, out.data());
      EXPECT_EQ(out, rope_reference(x, cos_sin, n_rot,
                                    [=](int64_t i) {
                                      return RopePair{i, i + n_rot / 2};
                                    }))
          << k->isa << " n_rot " << n_rot;
    }
  }
}

}  // namespace
}  // namespace tessera
