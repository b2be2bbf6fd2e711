// The attention kernels of every usable instruction set: against a double-precision reference, and bit for bit against
// themselves with other groupings of rows, other visible tokens of other rows, and other physical blocks.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tessera/tensor/dtype.h"
#include "tests/cpu/kernels_testing.h"
#include "tests/cpu/kv_testing.h"

namespace tessera {
namespace {

using cpu::AttentionTask;
using cpu::kBlockTokens;
using cpu::Kernels;
using cpu::kTileTokens;
using testing::Guarded;
using testing::kCacheTypes;
using testing::kv_row_bytes;
using testing::random_floats;
using testing::same_bits;
using testing::usable_kernels;
using testing::vector_kernels;

constexpr size_t kPageBytes = 4096;

/// Bytes at a page boundary, filled with 0xff: an f32, f16 or bf16 NaN wherever nothing was stored.
class CacheMemory {
 public:
  explicit CacheMemory(size_t n_bytes) : bytes_(n_bytes + kPageBytes, 0xff) {}
  char* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return reinterpret_cast<char*>(bytes_.data() + (kPageBytes - address % kPageBytes) % kPageBytes);
  }

 private:
  std::vector<uint8_t> bytes_;
};

/// One sequence's cache and some query rows. Tests change the public fields, then attend().
struct Problem {
  Problem(const Kernels& kernels, DType k, DType v, int k_dim_in, int v_dim_in, int n_blocks, uint64_t seed)
      : kernels(&kernels),
        k_type(k),
        v_type(v),
        k_dim(k_dim_in),
        v_dim(v_dim_in),
        rng(seed),
        blocks(static_cast<size_t>(n_blocks)),
        valid(static_cast<size_t>(n_blocks), 0),
        keys(static_cast<size_t>(n_blocks * kBlockTokens)),
        values(keys.size()),
        k_memory(k_stride() * (static_cast<size_t>(n_blocks) + 2)),
        v_memory(v_stride() * (static_cast<size_t>(n_blocks) + 2)) {
    for (int b = 0; b < n_blocks; ++b) blocks[static_cast<size_t>(b)] = n_blocks + 1 - b;  // not in order
    for (auto& key : keys) key = random_floats(rng, k_dim, 1);
    for (auto& value : values) value = random_floats(rng, v_dim, 1);
  }

  size_t k_stride() const { return kv_row_bytes(k_type, k_dim) * kBlockTokens + 128; }
  size_t v_stride() const { return kv_row_bytes(v_type, v_dim) * kBlockTokens + 64; }

  /// Stores the token of a position at its block offset and marks it as stored.
  void store(int position) {
    write(position);
    valid[static_cast<size_t>(position / kBlockTokens)] |= uint64_t{1} << (position % kBlockTokens);
  }
  void write(int position) {
    const auto block = static_cast<size_t>(blocks[static_cast<size_t>(position / kBlockTokens)]);
    const int slot = position % kBlockTokens;
    const auto p = static_cast<size_t>(position);
    kernels->kv_formats[static_cast<int>(k_type)]->store_k(keys[p].data(), k_dim, slot,
                                                           k_memory.data() + block * k_stride());
    kernels->kv_formats[static_cast<int>(v_type)]->store_v(values[p].data(), v_dim, slot,
                                                           v_memory.data() + block * v_stride());
  }
  void store_all(int n_tokens) {
    for (int position = 0; position < n_tokens; ++position) store(position);
  }

  void add_row(int position, float limit = 1) {
    positions.push_back(position);
    queries.push_back(random_floats(rng, k_dim, limit));
  }

  /// The outputs of the given rows, computed in one call.
  std::vector<std::vector<float>> attend(const std::vector<int>& rows) {
    std::vector<float> q;
    std::vector<int64_t> q_offsets, out_offsets;
    std::vector<int32_t> row_positions;
    std::vector<float> row_slopes, row_sinks;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<size_t>(rows[i]);
      q_offsets.push_back(static_cast<int64_t>(q.size()));
      q.insert(q.end(), queries[row].begin(), queries[row].end());
      row_positions.push_back(positions[row]);
      if (!slopes.empty()) row_slopes.push_back(slopes[row]);
      if (!sinks.empty()) row_sinks.push_back(sinks[row]);
      out_offsets.push_back(static_cast<int64_t>(rows.size() - 1 - i) * v_dim);  // not the queries' order
    }
    Guarded<float> out(static_cast<int64_t>(rows.size()) * v_dim);
    const size_t scratch_bytes = kernels->attention_scratch_bytes(k_dim, v_dim);
    EXPECT_EQ(scratch_bytes % 64, 0u);
    CacheMemory scratch(scratch_bytes);
    const AttentionTask task = {
        .q = q.data(),
        .out = out.data(),
        .q_offsets = q_offsets.data(),
        .out_offsets = out_offsets.data(),
        .positions = row_positions.data(),
        .n_rows = static_cast<int>(rows.size()),
        .k_dim = k_dim,
        .v_dim = v_dim,
        .scale = scale,
        .soft_cap = soft_cap,
        .slopes = slopes.empty() ? nullptr : row_slopes.data(),
        .sinks = sinks.empty() ? nullptr : row_sinks.data(),
        .causal = causal,
        .window = window,
        .blocks = blocks.data(),
        .valid = valid.data(),
        .first_block = 0,
        .n_blocks = static_cast<int>(blocks.size()),
        .k_base = k_memory.data(),
        .v_base = latent_v ? nullptr : v_memory.data(),
        .k_block_stride = k_stride(),
        .v_block_stride = v_stride(),
    };
    kernels->attention(task, static_cast<int>(k_type), static_cast<int>(v_type), scratch.data());
    EXPECT_TRUE(out.intact()) << kernels->isa;
    const std::vector<float> all = out.values();
    std::vector<std::vector<float>> result;
    for (const int64_t offset : out_offsets) result.emplace_back(all.begin() + offset, all.begin() + offset + v_dim);
    return result;
  }
  std::vector<std::vector<float>> attend() {
    std::vector<int> rows(queries.size());
    std::iota(rows.begin(), rows.end(), 0);
    return attend(rows);
  }

  const Kernels* kernels;
  DType k_type, v_type;
  int k_dim, v_dim;
  Rng rng;
  float scale = 0.125f, soft_cap = 0;
  bool causal = true, latent_v = false;
  int32_t window = 0;
  std::vector<float> slopes, sinks;  // per row; empty: none
  std::vector<int32_t> blocks;
  std::vector<uint64_t> valid;
  std::vector<std::vector<float>> keys, values;
  std::vector<int32_t> positions;
  std::vector<std::vector<float>> queries;
  CacheMemory k_memory, v_memory;
};

/// A row after a round trip through the cache's dtype.
std::vector<double> as_stored(const Kernels& k, DType dtype, const std::vector<float>& x) {
  std::vector<uint8_t> row(kv_row_bytes(dtype, static_cast<int>(x.size())));
  std::vector<float> y(x.size());
  k.from_f32[static_cast<int>(dtype)](x.data(), static_cast<int64_t>(x.size()), row.data());
  k.to_f32[static_cast<int>(dtype)](row.data(), static_cast<int64_t>(x.size()), y.data());
  return {y.begin(), y.end()};
}

/// Compares every row with softmax(scale q K^T) V in double precision.
void expect_matches_double(Problem& problem, const std::string& what) {
  const auto out = problem.attend();
  const Kernels& k = *problem.kernels;
  for (size_t r = 0; r < out.size(); ++r) {
    std::vector<double> scores;
    std::vector<std::vector<double>> values;
    double score_error = 0;
    for (int p = 0; p < static_cast<int>(problem.keys.size()); ++p) {
      const auto block = static_cast<size_t>(p / kBlockTokens);
      const int distance = std::abs(problem.positions[r] - p);
      if ((problem.causal && p > problem.positions[r]) || (problem.window > 0 && distance >= problem.window)) continue;
      if (problem.blocks[block] < 0 || (problem.valid[block] >> (p % kBlockTokens) & 1) == 0) continue;
      const auto key = as_stored(k, problem.k_type, problem.keys[static_cast<size_t>(p)]);
      double score = 0, magnitude = 0;
      for (size_t e = 0; e < key.size(); ++e) {
        score += key[e] * problem.queries[r][e];
        magnitude += std::abs(key[e] * problem.queries[r][e]);
      }
      score *= problem.scale;
      if (problem.soft_cap != 0) score = problem.soft_cap * std::tanh(score / problem.soft_cap);
      if (!problem.slopes.empty()) score -= double{problem.slopes[r]} * distance;
      scores.push_back(score);
      values.push_back(problem.latent_v ? std::vector<double>(key.end() - problem.v_dim, key.end())
                                        : as_stored(k, problem.v_type, problem.values[static_cast<size_t>(p)]));
      // Each of the k_dim steps of the chain (two roundings on scalar) and the scaling have an error of 2^-24 of the
      // magnitude. The subtraction of the maximum adds one more.
      score_error = std::max(score_error, magnitude * problem.scale * (2 * problem.k_dim + 4) * 0x1p-24);
      // The error of tanh is 4 ulp of at most the cap, of a slope's term one rounding.
      const double term = problem.slopes.empty() ? 0 : std::abs(double{problem.slopes[r]}) * distance;
      score_error += (4 * problem.soft_cap + 2 * term) * 0x1p-23;
    }
    const double highest = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - highest);
    if (!scores.empty() && !problem.sinks.empty()) sum += std::exp(problem.sinks[r] - highest);
    // The error of a weight is twice the score error plus 2 ulp of exp. Corrections add 3 roundings per block, sums one
    // per token.
    const auto n_steps = static_cast<double>(scores.size() + 3 * problem.blocks.size() + 8);
    const double tolerance = 1.05 * (4 * score_error + 2 * n_steps * 0x1p-23);
    for (size_t e = 0; e < out[r].size(); ++e) {
      double want = 0;
      for (size_t t = 0; t < scores.size(); ++t) want += scores[t] / sum * values[t][e];
      ASSERT_NEAR(out[r][e], want, tolerance) << k.isa << " " << what << " row " << r << " element " << e;
    }
  }
}

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
      {"all", [](Problem& p) { p.causal = false; }},
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
      const auto problem_of = [&](int n_rows) {
        Problem problem(*k, type, type, 64, 48, 4, 12);
        problem.store_all(230);
        for (int i = 0; i < n_rows; ++i) problem.add_row(229 - 20 * i, 4);
        return problem;
      };
      for (const int n_rows : {1, 5, 12}) {
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

/// 64 rows at mixed positions over 5 blocks with holes, in a cache whose unused tiles hold NaN.
Problem mixed_problem(const Kernels& k, DType k_type, DType v_type, int dim) {
  Problem problem(k, k_type, v_type, dim, dim, 5, 21);
  for (int p = 0; p < 300; ++p) {
    if (p % 64 < 50 && p % 11 != 4) problem.store(p);
  }
  for (int b = 0; b < 5; ++b) {
    for (int p = 64 * b; p < 64 * b + 64; ++p) {
      if (p >= 300 || p % 64 >= 50 || p % 11 == 4) {
        const uint64_t tile = uint64_t{0xffff} << (p % 64 / kTileTokens * kTileTokens);
        if ((problem.valid[static_cast<size_t>(b)] & tile) != 0) problem.write(p);  // stale but finite
      }
    }
  }
  for (int i = 0; i < 64; ++i) problem.add_row((i * 37) % 310, 4);
  return problem;
}

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
