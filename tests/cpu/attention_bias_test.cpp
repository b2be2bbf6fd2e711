// Attention with a relative bias (T5): scores against double precision.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

// One sequence of 300 tokens, 4 heads on 2 KV heads.
class RelativeBias : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr int64_t kDim = 8, kHeads = 4, kHeadsKv = 2, kTokens = 300, kBlocks = 5, kBuckets = 32;

  Graph graph() const {
    GraphBuilder b;
    const Value cells = b.input("cells", DType::i32, {kTokens});
    const Shape cache{kDim, 64, kHeadsKv, kBlocks}, rows{kDim, kHeadsKv, kTokens};
    const Value k = b.kv_store(b.input("kc", DType::f32, cache), b.input("k", DType::f32, rows), cells, KvSide::k);
    const Value v = b.kv_store(b.input("vc", DType::f32, cache), b.input("v", DType::f32, rows), cells, KvSide::v);
    b.output(b.paged_attention(b.input("q", DType::f32, {kDim, kHeads, kTokens}), k, v, cells,
                               b.input("slots", DType::i32, {kTokens}), b.input("blocks", DType::i32, {kBlocks}),
                               b.input("valid", DType::i64, {kBlocks}), {}, {.scale = 0.5f, .causal = GetParam()},
                               b.input("bias", DType::f32, {kHeads, kBuckets})),
             "y");
    return std::move(b).finish().value();
  }

  std::vector<double> expected() const {
    std::vector<double> y;
    const auto at = [](const std::vector<float>& x, int64_t n_heads, int64_t t, int64_t h, int64_t i) {
      return double{x[static_cast<size_t>((t * n_heads + h) * kDim + i)]};
    };
    for (int64_t t = 0; t < kTokens; ++t)
      for (int64_t h = 0; h < kHeads; ++h) {
        std::vector<double> out(kDim, 0.0);
        double sum = 0;
        for (int64_t p = 0; p < (GetParam() ? t + 1 : kTokens); ++p) {
          double score = bias_[static_cast<size_t>(bias_bucket(p - t, kBuckets, GetParam()) * kHeads + h)];
          for (int64_t i = 0; i < kDim; ++i) score += 0.5 * at(q_, kHeads, t, h, i) * at(k_, kHeadsKv, p, h / 2, i);
          sum += std::exp(score);
          for (int64_t i = 0; i < kDim; ++i)
            out[static_cast<size_t>(i)] += std::exp(score) * at(v_, kHeadsKv, p, h / 2, i);
        }
        for (const double o : out) y.push_back(o / sum);
      }
    return y;
  }

  Rng rng_{5};
  std::vector<float> q_ = random_values(rng_, kDim*kHeads*kTokens), k_ = random_values(rng_, kDim*kHeadsKv*kTokens),
                     v_ = random_values(rng_, kDim*kHeadsKv*kTokens),
                     bias_ = random_values(rng_, kHeads*kBuckets, 3.0f);
};

TEST_P(RelativeBias, IsAddedToTheScores) {
  std::vector<int32_t> cells, blocks;
  for (int32_t t = 0; t < kTokens; ++t) cells.push_back(t);
  for (int32_t block = 0; block < kBlocks; ++block) blocks.push_back(block);
  std::vector<int64_t> valid(kBlocks, -1);
  valid.back() = (int64_t{1} << (kTokens % 64)) - 1;
  const Bytes empty(kDim * 64 * kHeadsKv * kBlocks * sizeof(float));
  run_everywhere([&](const Device&) { return graph(); },
                 {{"cells", bytes_of(cells)},
                  {"kc", empty},
                  {"vc", empty},
                  {"k", bytes_of(k_)},
                  {"v", bytes_of(v_)},
                  {"q", bytes_of(q_)},
                  {"slots", bytes_of(std::vector<int32_t>(kTokens, 0))},
                  {"blocks", bytes_of(blocks)},
                  {"valid", bytes_of(valid)},
                  {"bias", bytes_of(bias_)}},
                 [&](const std::vector<float>& y) { expect_near(y, expected(), 1e-5); });  // f32 sums of 300 terms
}

INSTANTIATE_TEST_SUITE_P(Both, RelativeBias, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "causal" : "bidirectional"; });

}  // namespace
}  // namespace tessera
