// The attention kernels of every usable instruction set: against a double-precision reference, and bit for bit against
// themselves with other groupings of rows, other visible tokens of other rows, and other physical blocks.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tests/cpu/attention_problem.h"

namespace tessera {
namespace {

using cpu::kBlockTokens;
using cpu::Kernels;
using cpu::kTileTokens;
using testing::expect_matches_double;
using testing::kCacheTypes;
using testing::kPageBytes;
using testing::mixed_problem;
using testing::Problem;
using testing::same_bits;
using testing::usable_kernels;
using testing::vector_kernels;

// Values --------------------------------------------------------------------------

TEST(AttentionKernels, HandCase) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f32, DType::f32, 2, 3, 1, 1);
    problem.scale = 1;
    problem.keys[0] = {1, 0}, problem.keys[1] = {0, 1};
    problem.values[0] = {1, 0, 8}, problem.values[1] = {0, 1, 4};
    problem.store_all(2);
    problem.add_row(0), problem.add_row(1);
    problem.queries[0] = {5, 7};
    problem.queries[1] = {std::log(3.0f), 0};  // weights 3 and 1
    const auto out = problem.attend();
    EXPECT_EQ(out[0], (std::vector<float>{1, 0, 8})) << k->isa;
    EXPECT_NEAR(out[1][0], 0.75f, 1e-6f);  // a few roundings of values up to 8
    EXPECT_NEAR(out[1][1], 0.25f, 1e-6f);
    EXPECT_NEAR(out[1][2], 7.0f, 4e-6f);
  }
}

// The masks and the parts of a score, each alone and all together, at every edge of blocks and tiles.
TEST(AttentionKernels, MatchesDoublePrecisionForEveryRuleOfScores) {
  struct Rule {
    const char* name;
    void (*apply)(Problem&);
  };
  const Rule rules[] = {
      {"window 1", [](Problem& p) { p.window = 1; }},
      {"window 16", [](Problem& p) { p.window = 16; }},
      {"window 65", [](Problem& p) { p.window = 65; }},
      {"chunks of 48", [](Problem& p) { p.window = 48, p.chunked = true; }},
      {"all", [](Problem& p) { p.causal = p.chunked = false; }},
      {"symmetric window", [](Problem& p) { p.causal = false, p.window = 33; }},
      {"soft cap", [](Problem& p) { p.soft_cap = 0.5f; }},
      {"slopes",
       [](Problem& p) {
         for (float s = 1; p.slopes.size() < p.queries.size(); s /= 2) p.slopes.push_back(s);
       }},
      {"sinks",
       [](Problem& p) {
         for (float s = -2; p.sinks.size() < p.queries.size(); s += 1) p.sinks.push_back(s);
       }},
  };
  for (const Kernels* k : usable_kernels()) {
    for (const DType type : {DType::f32, DType::f16}) {
      for (const bool int16 : {false, true}) {
        const auto problem_of = [&](int n_rows) {
          Problem problem(*k, type, type, 64, 48, 4, 12);
          problem.int16 = int16;
          problem.store_all(230);
          for (int i = 0; i < n_rows; ++i) problem.add_row(229 - 15 * i, 4);
          return problem;
        };
        for (const int n_rows : {1, 5, 15}) {
          Problem all = problem_of(n_rows);
          for (const Rule& rule : rules) {
            Problem problem = problem_of(n_rows);
            rule.apply(problem), rule.apply(all);
            expect_matches_double(problem, rule.name);
          }
          expect_matches_double(all, "all rules");
        }
      }
    }
  }
}

TEST(AttentionKernels, ValuesMayBePartOfTheKeys) {
  for (const Kernels* k : usable_kernels()) {
    for (const DType type : kCacheTypes) {
      for (const int v_dim : {96, 64, 21, 1}) {
        Problem problem(*k, type, type, 96, v_dim, 3, 13);
        problem.latent_v = true;
        problem.store_all(150);
        for (int i = 0; i < 9; ++i) problem.add_row(149 - 17 * i);
        expect_matches_double(problem, "latent V");
      }
    }
  }
}

TEST(AttentionKernels, ASinkTakesTheWholeWeightOrNone) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f32, DType::f32, 16, 16, 1, 14);
    problem.store_all(3);
    problem.add_row(2), problem.add_row(2);
    problem.sinks = {1000.0f, -1000.0f};
    const auto out = problem.attend();
    EXPECT_EQ(out[0], std::vector<float>(16, 0.0f)) << k->isa;
    problem.sinks.clear();
    EXPECT_EQ(out[1], problem.attend()[1]) << k->isa;
  }
}

TEST(AttentionKernels, MatchesDoublePrecisionForEveryPairOfDtypes) {
  for (const Kernels* k : usable_kernels()) {
    for (const DType k_type : kCacheTypes) {
      for (const DType v_type : kCacheTypes) {
        if (!testing::runs_all_cases() && k_type != v_type && k_type != DType::f16) continue;
        for (const int n_rows : {1, 4, 9}) {
          Problem problem(*k, k_type, v_type, 64, 96, 4, 11);
          problem.store_all(230);
          for (int i = 0; i < n_rows; ++i) problem.add_row(229 - 23 * i);
          expect_matches_double(problem, std::string(info(k_type).name) + "/" + std::string(info(v_type).name));
        }
      }
    }
  }
}

TEST(AttentionKernels, MatchesDoublePrecisionForOddSizes) {
  for (const Kernels* k : usable_kernels()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const auto& [k_dim, v_dim] :
           {std::pair{1, 1}, {8, 8}, {15, 17}, {33, 31}, {80, 80}, {72, 129}, {256, 100}}) {
        Problem problem(*k, dtype, dtype, k_dim, v_dim, 3, 12);
        problem.store_all(150);
        for (int i = 0; i < 7; ++i) problem.add_row(149 - 20 * i);
        expect_matches_double(problem, std::to_string(k_dim) + "x" + std::to_string(v_dim));
      }
    }
  }
}

TEST(AttentionKernels, MatchesDoublePrecisionForSizesOfOneBlockAndMore) {
  for (const Kernels* k : usable_kernels()) {
    for (const DType dtype : kCacheTypes) {
      for (const auto& [k_dim, v_dim] : {std::pair{32, 32}, {96, 160}, {256, 64}}) {
        Problem problem(*k, dtype, dtype, k_dim, v_dim, 2, 17);
        problem.store_all(90);
        for (int i = 0; i < 5; ++i) problem.add_row(89 - 20 * i);
        expect_matches_double(problem, std::to_string(k_dim) + "x" + std::to_string(v_dim));
      }
    }
  }
}

TEST(AttentionKernels, EveryNumberOfRowsMatchesDoublePrecision) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::q8_0, 32, 32, 2, 13);
    problem.store_all(100);
    for (int n_rows = 1; n_rows <= cpu::kMaxAttentionRows; ++n_rows) {
      problem.add_row(35 + n_rows);
      if (n_rows <= 14 || n_rows == cpu::kMaxAttentionRows) expect_matches_double(problem, "rows");
    }
  }
}

TEST(AttentionKernels, SeesOnlyValidTokensOfPresentBlocks) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::f16, 64, 64, 5, 14);
    for (int p = 0; p < 290; ++p) {
      if (p % 7 < 3 || (p > 70 && p < 90)) problem.store(p);  // holes of every kind, an empty tile, ...
    }
    problem.valid[3] = 0;    // ... a block of nothing
    problem.blocks[2] = -1;  // ... and an absent block with its mask still set
    for (int i = 0; i < 8; ++i) problem.add_row(289 - 37 * i);
    expect_matches_double(problem, "holes");
  }
}

TEST(AttentionKernels, RowThatSeesNothingGivesZeros) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::f16, 64, 70, 2, 15);
    for (int p = 40; p < 100; ++p) problem.store(p);
    for (const int position : {39, 99, 0, 64, 5, 70, 99}) problem.add_row(position);
    const auto out = problem.attend();
    for (const size_t blind : {0, 2, 4}) EXPECT_TRUE(same_bits(out[blind], std::vector<float>(70, 0.0f))) << k->isa;
    expect_matches_double(problem, "blind rows");
  }
}

TEST(AttentionKernels, HugeScoresNeitherOverflowNorLoseTheWinner) {
  for (const Kernels* k : usable_kernels()) {
    for (const float sign : {1.0f, -1.0f}) {
      Problem problem(*k, DType::f32, DType::f32, 1, 2, 3, 16);
      problem.scale = 1;
      for (int p = 0; p < 150; ++p) {
        problem.keys[static_cast<size_t>(p)] = {static_cast<float>(p)};  // scores up to 1e4 or down to -1e4
        problem.values[static_cast<size_t>(p)] = {static_cast<float>(p), 1};
        problem.store(p);
      }
      problem.add_row(149);
      problem.queries[0] = {sign * 1e4f / 149};
      const auto out = problem.attend()[0];
      EXPECT_NEAR(out[0], sign > 0 ? 149.0f : 0.0f, 1e-25f) << k->isa;  // the next score is 67 below: e^-67 is 8e-30
      EXPECT_EQ(out[1], 1.0f) << k->isa;
    }
  }
}

// The same bits -------------------------------------------------------------------

TEST(AttentionKernels, BitsDoNotDependOnTheGroupingOfRows) {
  for (const Kernels* k : usable_kernels()) {
    for (const auto& [k_type, v_type] : {std::pair{DType::f16, DType::f16},
                                         {DType::q8_0, DType::bf16},
                                         {DType::f32, DType::q8_0},
                                         {DType::q4_0, DType::q5_1},
                                         {DType::q5_0, DType::iq4_nl},
                                         {DType::iq4_nl, DType::q4_0},
                                         {DType::q4_1, DType::q5_0},
                                         {DType::q5_1, DType::q4_1},
                                         {DType::bf16, DType::f32}}) {
      for (const int dim : {64, 96}) {
        Problem problem = mixed_problem(*k, k_type, v_type, dim);
        const auto together = problem.attend();
        for (int n_rows = 1; n_rows <= 13; n_rows += testing::all_or_few(1, 4)) {
          for (int first = 0; first < 64; first += n_rows) {
            std::vector<int> rows;
            for (int i = std::min(63, first + n_rows - 1); i >= first; --i) rows.push_back((i * 29) % 64);
            const auto apart = problem.attend(rows);
            for (size_t i = 0; i < rows.size(); ++i) {
              ASSERT_TRUE(same_bits(apart[i], together[static_cast<size_t>(rows[i])]))
                  << k->isa << " " << info(k_type).name << "/" << info(v_type).name << " in groups of " << n_rows;
            }
          }
        }
      }
    }
  }
}

TEST(AttentionKernels, BitsDoNotDependOnTokensThatTheRowDoesNotSee) {
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f16, DType::f16, 64, 64, 4, 22);
    problem.store_all(90);
    for (int i = 0; i < 5; ++i) problem.add_row(60 + 7 * i, 4);
    const auto before = problem.attend();
    for (int p = 90; p < 250; ++p) problem.store(p);  // later tokens in the same tile, block and beyond
    problem.add_row(249, 4);                          // and a row that attends to them
    const auto after = problem.attend();
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(same_bits(after[i], before[i])) << k->isa << " row " << i;
  }
}

TEST(AttentionKernels, BitsDoNotDependOnUnderflowBesideOtherRows) {
  // Weights so small that products with V underflow to -0, next to a row through which they are added to +0.
  for (const Kernels* k : usable_kernels()) {
    Problem problem(*k, DType::f32, DType::f32, 1, 16, 1, 23);
    problem.scale = 1;
    problem.keys[0] = {0}, problem.keys[1] = {-87}, problem.keys[2] = {0};
    problem.values[0] = std::vector<float>(16, 0.0f);
    problem.values[1] = std::vector<float>(16, -1e-30f);
    problem.values[2] = std::vector<float>(16, 1.0f);
    problem.store_all(3);
    problem.add_row(1), problem.add_row(2);
    problem.queries = {{1}, {1}};
    EXPECT_TRUE(same_bits(problem.attend({0, 1})[0], problem.attend({0})[0])) << k->isa;
  }
}

TEST(AttentionKernels, BitsDoNotDependOnThePhysicalPlaceOfBlocks) {
  for (const Kernels* k : usable_kernels()) {
    const auto fill = [&](bool reversed) {
      Problem problem(*k, DType::q8_0, DType::f16, 64, 64, 4, 24);
      if (reversed) std::reverse(problem.blocks.begin(), problem.blocks.end());
      problem.store_all(250);
      for (int i = 0; i < 8; ++i) problem.add_row(249 - i);
      return problem.attend();
    };
    const auto one = fill(false), other = fill(true);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], other[i])) << k->isa;
  }
}

TEST(AttentionKernels, UnwrittenSlotsBesideVisibleTilesDoNotMatter) {
  for (const Kernels* k : usable_kernels()) {
    for (const int n_rows : {1, 8, 20}) {
      Problem problem(*k, DType::f16, DType::f16, 64, 64, 2, 25);  // unwritten slots are NaN
      problem.store_all(80);
      problem.valid[0] = 0xffff;
      for (int i = 0; i < n_rows; ++i) problem.add_row(79);
      expect_matches_double(problem, "unwritten tiles");
    }
  }
}

TEST(AttentionKernels, TilesWithoutVisibleTokensAreNotRead) {
  // A tile of K and 16 rows of V take one page each, so reading past the first 16 tokens would fault.
  for (const Kernels* k : usable_kernels()) {
    for (const auto& [dtype, dim] : {std::pair{DType::f32, 64}, {DType::f16, 128}, {DType::bf16, 128}}) {
      Problem problem(*k, dtype, dtype, dim, dim, 1, 26);
      problem.blocks[0] = 0;
      problem.store_all(16);
      for (int i = 0; i < 20; ++i) problem.add_row(63);
      for (char* memory : {problem.k_memory.data(), problem.v_memory.data()}) {
        ASSERT_EQ(mprotect(memory + kPageBytes, 3 * kPageBytes, PROT_NONE), 0);
      }
      for (const int n_rows : {1, 8, 20}) {
        std::vector<int> rows(static_cast<size_t>(n_rows));
        std::iota(rows.begin(), rows.end(), 0);
        problem.attend(rows);
      }
      for (char* memory : {problem.k_memory.data(), problem.v_memory.data()}) {
        ASSERT_EQ(mprotect(memory + kPageBytes, 3 * kPageBytes, PROT_READ | PROT_WRITE), 0);
      }
    }
  }
}

TEST(AttentionKernels, VectorSetsGiveTheSameBits) {
  const auto sets = vector_kernels();
  if (sets.empty()) GTEST_SKIP() << "fewer than two vector instruction sets are usable here";
  for (const DType k_type : kCacheTypes) {
    for (const DType v_type : kCacheTypes) {
      const auto one = mixed_problem(*sets[0], k_type, v_type, 96).attend();
      const auto other = mixed_problem(*sets[1], k_type, v_type, 96).attend();
      for (size_t i = 0; i < one.size(); ++i) {
        ASSERT_TRUE(same_bits(one[i], other[i])) << info(k_type).name << "/" << info(v_type).name << " row " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
