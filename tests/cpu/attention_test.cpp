// Attention as an operation over a paged cache with holes.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tests/cpu/kv_testing.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

// Two sequences: 0 has positions 0-99 except a hole, 1 has only positions 60-69. Their blocks are in no order.
struct Scene {
  static constexpr int64_t kDim = 32, vDim = 32, n_heads = 6, n_heads_kv = 2, n_blocks = 5, n_max_blocks = 3,
                           n_tokens = 7;
  std::vector<int32_t> positions{99, 98, 10, 64, 65, 69, 3};
  std::vector<int32_t> slots{0, 0, 0, 0, 1, 1, 1};  // the last attends to nothing
  std::vector<int32_t> blocks{4, 1, -1, 3, 0, -1};
  std::vector<int64_t> valid = std::vector<int64_t>(6);
  std::vector<float> q, k, v;  // k and v by cell
  std::vector<int32_t> cells;

  Scene() {
    Rng rng(3);
    q = random_values(rng, kDim * n_heads * n_tokens);
    k = random_values(rng, kDim * n_heads_kv * n_blocks * 64);
    v = random_values(rng, vDim * n_heads_kv * n_blocks * 64);
    for (int p = 0; p < 100; ++p)
      if (p < 20 || p > 40) valid[static_cast<size_t>(p / 64)] |= int64_t{1} << (p % 64);
    for (int p = 60; p < 70; ++p) valid[static_cast<size_t>(3 + p / 64)] |= int64_t{1} << (p % 64);
    for (int cell = 0; cell < n_blocks * 64; ++cell) cells.push_back(cell);
  }

  std::optional<int64_t> cell(int64_t slot, int64_t position) const {
    const auto at = static_cast<size_t>(slot * n_max_blocks + position / 64);
    if ((valid[at] >> (position % 64) & 1) == 0) return std::nullopt;
    return blocks[at] * 64 + position % 64;
  }

  std::vector<double> reference(float scale) const {
    std::vector<double> out;
    for (int64_t t = 0; t < n_tokens; ++t)
      for (int64_t h = 0; h < n_heads; ++h) {
        const int64_t kv = h / (n_heads / n_heads_kv);
        std::vector<double> sum(vDim);
        double total = 0;
        for (int64_t p = 0; p <= positions[static_cast<size_t>(t)]; ++p) {
          const auto c = cell(slots[static_cast<size_t>(t)], p);
          if (!c) continue;
          double score = 0;
          for (int64_t i = 0; i < kDim; ++i)
            score += double{q[static_cast<size_t>((t * n_heads + h) * kDim + i)]} *
                     k[static_cast<size_t>((*c * n_heads_kv + kv) * kDim + i)];
          const double weight = std::exp(score * scale);
          total += weight;
          for (int64_t i = 0; i < vDim; ++i)
            sum[static_cast<size_t>(i)] += weight * v[static_cast<size_t>((*c * n_heads_kv + kv) * vDim + i)];
        }
        for (const double s : sum) out.push_back(total == 0 ? 0 : s / total);
      }
    return out;
  }

  NamedBytes inputs(DType dtype) const {
    const Bytes cache(nbytes(dtype, {kDim, 64, n_heads_kv, n_blocks}).value());
    return {{"q", bytes_of(q)},
            {"k", bytes_of(k)},
            {"v", bytes_of(v)},
            {"cells", bytes_of(cells)},
            {"positions", bytes_of(positions)},
            {"slots", bytes_of(slots)},
            {"blocks", bytes_of(blocks)},
            {"valid", bytes_of(valid)},
            {"ck", cache},
            {"cv", cache}};
  }

  static Graph graph(DType dtype, float scale) {
    GraphBuilder b;
    const Shape shape{kDim, 64, n_heads_kv, n_blocks}, rows{kDim, n_heads_kv, n_blocks * 64};
    const Value cells = b.input("cells", DType::i32, {n_blocks * 64});
    const Value ck = b.kv_store(b.input("ck", dtype, shape), b.input("k", DType::f32, rows), cells, KvSide::k);
    const Value cv = b.kv_store(b.input("cv", dtype, shape), b.input("v", DType::f32, rows), cells, KvSide::v);
    b.output(b.paged_attention(b.input("q", DType::f32, {kDim, n_heads, n_tokens}), ck, cv,
                               b.input("positions", DType::i32, {n_tokens}), b.input("slots", DType::i32, {n_tokens}),
                               b.input("blocks", DType::i32, {n_max_blocks, 2}),
                               b.input("valid", DType::i64, {n_max_blocks, 2}), {}, {.scale = scale}),
             "y");
    return std::move(b).finish().value();
  }
};

TEST(Attention, SeesTheStoredPositionsUpToItsOwn) {
  const Scene scene;
  for (const DType dtype : kCacheTypes)
    run_everywhere([&](const Device&) { return Scene::graph(dtype, 0.5f); }, scene.inputs(dtype),
                   [&](const std::vector<float>& y) {
                     Scene rounded = scene;
                     rounded.k = as_cached(dtype, scene.k), rounded.v = as_cached(dtype, scene.v);
                     expect_near(y, rounded.reference(0.5f), 1e-5);  // exp and sums of f32
                   });
}

TEST(Attention, RefusesTablesThatPointOutside) {
  const auto run = [](auto change) {
    Scene scene;
    change(scene);
    GraphRunner runner("", 2);
    return runner.run_y(Scene::graph(DType::f32, 1.0f), scene.inputs(DType::f32));
  };
  EXPECT_ERROR(run([](Scene& s) { s.slots[2] = 2; }), "sequence 2, want 0 to 1");
  EXPECT_ERROR(run([](Scene& s) { s.slots[2] = -1; }), "sequence -1, want 0 to 1");
  EXPECT_ERROR(run([](Scene& s) { s.positions[0] = 192; }), "position 192, want 0 to 191");
  EXPECT_ERROR(run([](Scene& s) { s.positions[0] = -1; }), "position -1, want 0 to 191");
  EXPECT_ERROR(run([](Scene& s) { s.blocks[0] = 5; }), "block 5, want 0 to 4");
  EXPECT_ERROR(run([](Scene& s) { s.blocks[3] = -2; }), "block -2, want 0 to 4");
  EXPECT_OK(run([](Scene& s) { s.blocks[2] = 99; }));  // beyond every position: never used
}

TEST(Attention, NoTokensAreNoWork) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        const Value none = b.input("none", DType::i32, {0}), cache = b.input("c", DType::f16, {16, 64, 1, 1});
        b.output(b.paged_attention(b.input("q", DType::f32, {16, 2, 0}), cache, cache, none, none,
                                   b.input("b", DType::i32, {1}), b.input("v", DType::i64, {1}), {}, {}),
                 "y");
        return std::move(b).finish().value();
      },
      {{"none", {}}, {"q", {}}, {"c", Bytes(2048)}, {"b", Bytes(4)}, {"v", Bytes(8)}},
      [](const auto& y) { EXPECT_TRUE(y.empty()); });
}

}  // namespace
}  // namespace tessera
