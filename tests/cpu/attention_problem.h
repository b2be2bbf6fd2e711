// A sequence's cache and some query rows for tests of the attention kernels, and the answer in double precision.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "tessera/base/cpu_info.h"
#include "tessera/tensor/dtype.h"
#include "tests/cpu/kernels_testing.h"
#include "tests/cpu/kv_testing.h"

namespace tessera::testing {

using cpu::AttentionTask;
using cpu::kBlockTokens;
using cpu::Kernels;
using cpu::kTileTokens;

inline constexpr size_t kPageBytes = 4096;

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
        .chunked = chunked,
        .int16 = int16,
        .has_bf16_dot = has_bf16_dot,
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
  bool int16 = false, has_bf16_dot = cpu_features().avx512_bf16;
  int32_t window = 0;
  bool chunked = false;
  std::vector<float> slopes, sinks;  // per row; empty: none
  std::vector<int32_t> blocks;
  std::vector<uint64_t> valid;
  std::vector<std::vector<float>> keys, values;
  std::vector<int32_t> positions;
  std::vector<std::vector<float>> queries;
  CacheMemory k_memory, v_memory;
};

/// A row after a round trip through the cache's dtype.
inline std::vector<double> as_stored(const Kernels& k, DType dtype, const std::vector<float>& x) {
  std::vector<uint8_t> row(kv_row_bytes(dtype, static_cast<int>(x.size())));
  std::vector<float> y(x.size());
  k.from_f32[static_cast<int>(dtype)](x.data(), static_cast<int64_t>(x.size()), row.data());
  k.to_f32[static_cast<int>(dtype)](row.data(), static_cast<int64_t>(x.size()), y.data());
  return {y.begin(), y.end()};
}

/// Rounds floats to bf16 as attention with 16-bit scores does.
inline std::vector<double> as_bf16(const std::vector<double>& x) {
  std::vector<double> rounded;
  for (const double value : x) {
    const uint32_t bits = (std::bit_cast<uint32_t>(static_cast<float>(value)) + 0x8000) & 0xffff0000;
    rounded.push_back(std::bit_cast<float>(bits));
  }
  return rounded;
}

/// Rounds a vector to 16-bit integers in units of its largest element, so that no sum of x.size() products reaches
/// 2^31.
inline std::vector<double> as_codes(const Kernels& kernels, const std::vector<double>& x) {
  float largest = 0;
  for (const double value : x) largest = std::max(largest, static_cast<float>(std::abs(value)));
  if (largest < 0x1p-100f) return std::vector<double>(x.size(), 0.0);
  const float limit = std::min(32767.0f, static_cast<float>(std::floor(std::sqrt(2147483647.0 / double(x.size())))));
  const float inverse = limit / largest, unit = largest / limit;
  const bool rounds_twice = std::string_view(kernels.isa) == "scalar";
  std::vector<double> rounded;
  for (const double value : x) {
    const double scaled = value * inverse;
    rounded.push_back(unit * std::nearbyint(rounds_twice ? double{static_cast<float>(scaled)} : scaled));
  }
  return rounded;
}

/// A query as the kernel multiplies it, in units of the score.
inline std::vector<double> as_multiplied(const Problem& problem, const std::vector<float>& q) {
  std::vector<double> x(q.begin(), q.end());
  if (problem.int16) x = as_codes(*problem.kernels, x);
  for (double& value : x) value *= problem.scale;
  return x;
}

/// Compares every row with softmax(scale q K^T) V in double precision, with q, K and V rounded as the problem says.
inline void expect_matches_double(Problem& problem, const std::string& what) {
  const auto out = problem.attend();
  const Kernels& k = *problem.kernels;
  for (size_t r = 0; r < out.size(); ++r) {
    std::vector<double> scores;
    std::vector<std::vector<double>> values;
    double score_error = 0;
    const std::vector<double> query = as_multiplied(problem, problem.queries[r]);
    for (int p = 0; p < static_cast<int>(problem.keys.size()); ++p) {
      const auto block = static_cast<size_t>(p / kBlockTokens);
      const int distance = std::abs(problem.positions[r] - p);
      if ((problem.causal && p > problem.positions[r]) || (problem.window > 0 && distance >= problem.window)) continue;
      if (problem.chunked && p / problem.window != problem.positions[r] / problem.window) continue;
      if (problem.blocks[block] < 0 || (problem.valid[block] >> (p % kBlockTokens) & 1) == 0) continue;
      const auto stored_key = as_stored(k, problem.k_type, problem.keys[static_cast<size_t>(p)]);
      const auto key = problem.int16 ? as_codes(k, stored_key) : stored_key;
      double score = 0, magnitude = 0;
      for (size_t e = 0; e < key.size(); ++e) {
        score += key[e] * query[e];
        magnitude += std::abs(key[e] * query[e]);
      }
      if (problem.soft_cap != 0) score = problem.soft_cap * std::tanh(score / problem.soft_cap);
      if (!problem.slopes.empty()) score -= double{problem.slopes[r]} * distance;
      scores.push_back(score);
      values.push_back(problem.latent_v ? std::vector<double>(stored_key.end() - problem.v_dim, stored_key.end())
                                        : as_stored(k, problem.v_type, problem.values[static_cast<size_t>(p)]));
      if (problem.int16) values.back() = as_bf16(values.back());
      // Each of the k_dim steps of the chain (two roundings on scalar) and the scaling have an error of 2^-24 of the
      // magnitude. The subtraction of the maximum adds one more.
      score_error = std::max(score_error, magnitude * (2 * problem.k_dim + 4) * 0x1p-24);
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
    double tolerance = 1.05 * (4 * score_error + 2 * n_steps * 0x1p-23);
    // The error of a weight as a power of two in bf16, and of its rounding, for values up to 1.
    if (problem.int16) tolerance += 1.1e-4 + 0x1p-9;
    for (size_t e = 0; e < out[r].size(); ++e) {
      double want = 0;
      for (size_t t = 0; t < scores.size(); ++t) want += scores[t] / sum * values[t][e];
      ASSERT_NEAR(out[r][e], want, tolerance) << k.isa << " " << what << " row " << r << " element " << e;
    }
  }
}

/// 64 rows at mixed positions over 5 blocks with holes, in a cache whose unused tiles hold NaN.
inline Problem mixed_problem(const Kernels& k, DType k_type, DType v_type, int dim) {
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

}  // namespace tessera::testing
