// Attention with scores from 16-bit integers, and weights and V in bf16: the same bits by bf16 dot products, by floats
// in prefill, by floats in decode, and on every vector instruction set. The values are checked against double
// precision.
#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/cpu/attention_problem.h"

namespace tessera {
namespace {

using cpu::Kernels;
using cpu::kMaxAttentionRows;
using testing::expect_matches_double;
using testing::kCacheTypes;
using testing::kPageBytes;
using testing::mixed_problem;
using testing::Problem;
using testing::same_bits;
using testing::usable_kernels;
using testing::vector_kernels;

/// Returns the outputs. by_dots: with bf16 dot products where the CPU has them.
std::vector<std::vector<float>> attend_in_16_bits(Problem& problem, bool by_dots) {
  problem.int16 = true;
  problem.has_bf16_dot = by_dots && cpu_features().avx512_bf16;
  return problem.attend();
}

void expect_same_by_dots(Problem& problem, const std::string& what) {
  const auto dots = attend_in_16_bits(problem, true), floats = attend_in_16_bits(problem, false);
  for (size_t i = 0; i < dots.size(); ++i)
    ASSERT_TRUE(same_bits(dots[i], floats[i])) << problem.kernels->isa << " " << what << " row " << i;
}

TEST(AttentionFromInt16, MatchesDoublePrecisionForEveryDtype) {
  for (const Kernels* k : usable_kernels()) {
    for (const DType type : kCacheTypes) {
      for (const int n_rows : {1, 7, 30}) {
        Problem problem(*k, type, type, 64, 96, 4, 11);
        problem.int16 = true;
        problem.store_all(230);
        for (int i = 0; i < n_rows; ++i) problem.add_row(229 - 7 * i);
        expect_matches_double(problem, std::string(info(type).name));
      }
    }
  }
}

// With one key per row the output is its V, and with equal scores it is the mean, whatever the precision.
TEST(AttentionFromInt16, RoundsOperandsToTheNearest) {
  constexpr float kTie = 1 + 0x1p-8f;  // halfway between two bf16: the one farther from 0
  for (const Kernels* k : usable_kernels()) {
    for (const int n_rows : {1, 20}) {
      Problem problem(*k, DType::f32, DType::f32, 2, 4, 1, 1);
      problem.values[0] = {kTie, -kTie, 1 + 0x1p-9f, 1 + 3 * 0x1p-9f};
      problem.store_all(1);
      for (int i = 0; i < n_rows; ++i) problem.add_row(0);
      const std::vector<float> want = {1 + 0x1p-7f, -1 - 0x1p-7f, 1, 1 + 0x1p-7f};
      for (const bool by_dots : {false, true}) EXPECT_EQ(attend_in_16_bits(problem, by_dots).back(), want) << k->isa;
    }
  }
}

TEST(AttentionFromInt16, DotProductsGiveTheBitsOfFloats) {
  if (!cpu_features().avx512_bf16) GTEST_SKIP() << "this CPU has no bf16 dot products";
  for (const Kernels* k : usable_kernels()) {
    for (const DType k_type : kCacheTypes)
      for (const DType v_type : kCacheTypes) {
        if (!testing::runs_all_cases() && k_type != v_type && k_type != DType::f16) continue;
        Problem problem = mixed_problem(*k, k_type, v_type, 96);
        expect_same_by_dots(problem, std::string(info(k_type).name) + "/" + std::string(info(v_type).name));
      }
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      for (const auto& [k_dim, v_dim] :
           {std::pair{1, 1}, {2, 16}, {15, 17}, {33, 31}, {80, 80}, {72, 129}, {256, 100}}) {
        Problem problem(*k, type, type, k_dim, v_dim, 3, 12);
        problem.store_all(150);
        for (int i = 0; i < 19; ++i) problem.add_row(149 - 7 * i, 8);
        expect_same_by_dots(problem, std::to_string(k_dim) + "x" + std::to_string(v_dim));
        problem.latent_v = true;
        problem.v_dim = std::min(k_dim, v_dim);
        expect_same_by_dots(problem, "latent V of " + std::to_string(k_dim));
      }
  }
}

TEST(AttentionFromInt16, DotProductsGiveTheBitsOfFloatsForEveryNumberOfRows) {
  if (!cpu_features().avx512_bf16) GTEST_SKIP() << "this CPU has no bf16 dot products";
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::q8_0, 32, 32, 3, 13);
    problem.store_all(180);
    for (int n_rows = 1; n_rows <= kMaxAttentionRows; ++n_rows) {
      problem.add_row((35 + 41 * n_rows) % 190);
      if (n_rows <= 30 || n_rows == kMaxAttentionRows) expect_same_by_dots(problem, std::to_string(n_rows) + " rows");
    }
  }
}

// Few rows read the cache by floats, many rows by dot products.
TEST(AttentionFromInt16, BitsDoNotDependOnTheGroupingOfRows) {
  for (const Kernels* k : usable_kernels()) {
    for (const DType type : {DType::f16, DType::q8_0, DType::q5_1}) {
      Problem problem = mixed_problem(*k, type, type, 64);
      const auto together = attend_in_16_bits(problem, true);
      for (int n_rows = 1; n_rows <= 25; n_rows += 4) {
        for (int first = 0; first < 64; first += n_rows) {
          std::vector<int> rows;
          for (int i = std::min(63, first + n_rows - 1); i >= first; --i) rows.push_back((i * 29) % 64);
          const auto apart = problem.attend(rows);
          for (size_t i = 0; i < rows.size(); ++i)
            ASSERT_TRUE(same_bits(apart[i], together[static_cast<size_t>(rows[i])]))
                << k->isa << " " << info(type).name << " in groups of " << n_rows;
        }
      }
    }
  }
}

TEST(AttentionFromInt16, BitsDoNotDependOnTokensThatTheRowDoesNotSee) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::f16, 64, 64, 4, 22);
    problem.store_all(91);  // an odd number: the last token's neighbour is NaN
    for (int i = 0; i < 15; ++i) problem.add_row(60 + 2 * i, 4);
    const auto before = attend_in_16_bits(problem, true);
    for (int p = 91; p < 250; ++p) problem.store(p);
    problem.add_row(249, 4);
    const auto after = attend_in_16_bits(problem, true);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(same_bits(after[i], before[i])) << k->isa << " row " << i;
  }
}

// Few rows read V from the cache in pairs of tokens. The missing tokens are NaN.
TEST(AttentionFromInt16, FewRowsDoNotReadMissingTokensBesideTheirs) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::f16, 64, 64, 2, 23);
    for (const int missing : {40, 91}) {  // the first one of a pair, and the second one
      problem.values[static_cast<size_t>(missing)].assign(64, std::numeric_limits<float>::quiet_NaN());
      problem.write(missing);
    }
    for (int p = 0; p < 91; ++p)
      if (p != 40) problem.store(p);
    for (int i = 0; i < 15; ++i) problem.add_row(90 - 2 * i, 4);
    const auto all = attend_in_16_bits(problem, true);
    for (int row = 0; row < 15; ++row) {
      for (const int n_rows : {1, 9})
        EXPECT_TRUE(same_bits(problem.attend(std::vector<int>(static_cast<size_t>(n_rows), row))[0],
                              all[static_cast<size_t>(row)]))
            << k->isa << " row " << row << " of " << n_rows;
    }
    expect_matches_double(problem, "a missing token");
  }
}

TEST(AttentionFromInt16, SeesOnlyValidTokensOfPresentBlocks) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::f16, 64, 64, 5, 14);
    problem.int16 = true;
    for (int p = 0; p < 290; ++p) {
      if (p % 7 < 3 || (p > 70 && p < 90)) problem.store(p);  // whole pairs, halves of pairs, an empty tile, ...
    }
    problem.valid[3] = 0;    // ... a block of nothing
    problem.blocks[2] = -1;  // ... and an absent block with its mask still set
    for (int i = 0; i < 16; ++i) problem.add_row(289 - 18 * i);
    expect_matches_double(problem, "holes");
    // All rows see all of the first blocks.
    problem.positions.assign(problem.positions.size(), 289);
    expect_matches_double(problem, "holes before all rows");
    problem.causal = false;
    expect_matches_double(problem, "holes, not causal");
  }
}

TEST(AttentionFromInt16, ASinkTakesTheWholeWeightOrNone) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f32, DType::f32, 16, 16, 1, 14);
    problem.int16 = true;
    problem.store_all(3);
    problem.add_row(2), problem.add_row(2);
    problem.sinks = {1000.0f, -1000.0f};
    const auto out = problem.attend();
    EXPECT_EQ(out[0], std::vector<float>(16, 0.0f)) << k->isa;
    problem.sinks.clear();
    EXPECT_EQ(out[1], problem.attend()[1]) << k->isa;
  }
}

TEST(AttentionFromInt16, HugeScoresNeitherOverflowNorLoseTheWinner) {
  for (const Kernels* k : usable_kernels()) {
    for (const int n_rows : {1, 14}) {
      Problem problem(*k, DType::f32, DType::f32, 1, 2, 3, 16);
      problem.scale = 1;
      for (int p = 0; p < 150; ++p) {
        problem.keys[static_cast<size_t>(p)] = {static_cast<float>(p)};
        problem.values[static_cast<size_t>(p)] = {static_cast<float>(p), 1};
        problem.store(p);
      }
      for (int i = 0; i < n_rows; ++i) problem.add_row(149);
      for (auto& q : problem.queries) q = {256.0f};
      EXPECT_EQ(attend_in_16_bits(problem, true).back(), (std::vector<float>{149, 1})) << k->isa;
      for (auto& q : problem.queries) q = {-256.0f};
      EXPECT_EQ(attend_in_16_bits(problem, true).back(), (std::vector<float>{0, 1})) << k->isa;
    }
  }
}

// All codes are the largest one, so the sums are the largest ones.
TEST(AttentionFromInt16, SumsDoNotOverflow) {
  for (const Kernels* k : usable_kernels()) {
    for (const int dim : {1, 2, 3, 64, 80, 128, 255, 576}) {
      Problem problem(*k, DType::f32, DType::f32, dim, 16, 1, 31);
      problem.scale = 1.0f / static_cast<float>(dim);
      for (int p = 0; p < 40; ++p)
        problem.keys[static_cast<size_t>(p)].assign(static_cast<size_t>(dim), (p % 2 == 0 ? 0.7f : -1.3f));
      problem.store_all(40);
      for (int i = 0; i < 15; ++i) {
        problem.add_row(39 - i);
        problem.queries.back().assign(static_cast<size_t>(dim), i % 3 == 0 ? -3.0f : 2.0f);
      }
      problem.int16 = true;
      expect_matches_double(problem, std::to_string(dim) + " elements");
    }
  }
}

TEST(AttentionFromInt16, CodesAreInUnitsOfTheLargestElement) {
  for (const Kernels* k : usable_kernels()) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      for (const int dim : {7, 8, 9, 10, 11, 64}) {
        for (const int place : {0, 1, dim / 2, dim - 2, dim - 1}) {
          Problem problem(*k, type, DType::f32, dim, 16, 2, 32);
          for (size_t p = 0; p < problem.keys.size(); ++p)
            problem.keys[p][static_cast<size_t>(place)] *= p % 3 == 0 ? 100.0f : -40.0f;
          problem.store_all(100);
          for (int i = 0; i < 14; ++i) problem.add_row(99 - i);
          for (auto& q : problem.queries) q[static_cast<size_t>(place)] *= 0.02f;
          problem.int16 = true;
          expect_matches_double(problem, std::string(info(type).name) + " element " + std::to_string(place));
        }
      }
    }
  }
}

TEST(AttentionFromInt16, VectorsOfZerosHaveScoresOfZero) {
  for (const Kernels* k : usable_kernels()) {
    for (const float value : {0.0f, 1e-38f, 1e-33f}) {
      Problem problem(*k, DType::f32, DType::f32, 16, 16, 1, 33);
      for (int p = 0; p < 8; ++p) problem.keys[static_cast<size_t>(p)].assign(16, value);
      problem.store_all(40);
      for (int i = 0; i < 14; ++i) problem.add_row(39);
      problem.queries[0].assign(16, value);
      problem.queries[13].assign(16, value);
      problem.int16 = true;
      expect_matches_double(problem, "small values");
      problem.scale = 0;
      expect_matches_double(problem, "a scale of 0");
    }
  }
}

TEST(AttentionFromInt16, ValuesThatAreNotFiniteMakeTheOutputNaN) {
  const auto is_nan = [](const std::vector<float>& row) {
    return std::ranges::all_of(row, [](float x) { return x != x; });
  };
  for (const Kernels* k : usable_kernels()) {
    for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (const DType type : {DType::f32, DType::f16}) {
        Problem problem(*k, type, DType::f32, 16, 16, 1, 34);
        problem.keys[20][5] = value;
        problem.store_all(40);
        for (int i = 0; i < 14; ++i) problem.add_row(i == 3 ? 39 : 19);
        problem.queries[7][3] = value;
        const auto out = attend_in_16_bits(problem, true);
        for (size_t i = 0; i < out.size(); ++i)
          EXPECT_EQ(is_nan(out[i]), i == 3 || i == 7) << k->isa << " " << value << " row " << i;
      }
    }
  }
}

TEST(AttentionFromInt16, TilesWithoutVisibleTokensAreNotRead) {
  // A tile of K and 16 rows of V take one page each, so reading past the first 16 tokens would fault.
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::f16, 128, 128, 1, 26);
    problem.int16 = true;
    problem.blocks[0] = 0;
    problem.store_all(16);
    for (int i = 0; i < 20; ++i) problem.add_row(63);
    for (char* memory : {problem.k_memory.data(), problem.v_memory.data()})
      ASSERT_EQ(mprotect(memory + kPageBytes, 3 * kPageBytes, PROT_NONE), 0);
    for (const int n_rows : {1, 8, 20}) {
      std::vector<int> rows(static_cast<size_t>(n_rows));
      std::iota(rows.begin(), rows.end(), 0);
      problem.attend(rows);
    }
    for (char* memory : {problem.k_memory.data(), problem.v_memory.data()})
      ASSERT_EQ(mprotect(memory + kPageBytes, 3 * kPageBytes, PROT_READ | PROT_WRITE), 0);
  }
}

TEST(AttentionFromInt16, VectorSetsGiveTheSameBits) {
  const auto sets = vector_kernels();
  if (sets.empty()) GTEST_SKIP() << "fewer than two vector instruction sets are usable here";
  for (const DType type : kCacheTypes) {
    const auto attend = [&](const Kernels& kernels, auto apply) {
      Problem problem = mixed_problem(kernels, type, type, 96);
      apply(problem);
      return attend_in_16_bits(problem, true);
    };
    const std::initializer_list<void (*)(Problem&)> rules = {
        [](Problem&) {}, [](Problem& p) { p.window = 65; }, [](Problem& p) { p.soft_cap = 0.5f; },
        [](Problem& p) {
          for (float s = 1; p.slopes.size() < p.queries.size(); s /= 1.5f) p.slopes.push_back(s);
        }};
    for (const auto& rule : rules) {
      const auto one = attend(*sets[0], rule), other = attend(*sets[1], rule);
      for (size_t i = 0; i < one.size(); ++i)
        ASSERT_TRUE(same_bits(one[i], other[i])) << info(type).name << " row " << i;
    }
  }
}

}  // namespace
}  // namespace tessera
