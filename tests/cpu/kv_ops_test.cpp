// kv_store, kv_load and attention as operations over a paged cache with holes.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tessera/cpu/dispatch.h"
#include "tests/cpu/kv_types.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

/// What a cache makes of rows of 32 floats; the same on every instruction set.
std::vector<float> as_stored(DType dtype, const std::vector<float>& x) {
  const cpu::Kernels& kernels = **cpu::select_kernels("");
  const auto n = static_cast<int64_t>(x.size()), id = static_cast<int64_t>(dtype);
  Bytes row(nbytes(dtype, {n}).value());
  std::vector<float> y(x.size());
  kernels.from_f32[id](x.data(), n, row.data());
  kernels.to_f32[id](row.data(), n, y.data());
  return y;
}

TEST(KvOps, LoadReturnsWhatStoreWrote) {
  const std::vector<int32_t> cells{130, 0, 63, -1, 64, 191};  // -1 is skipped
  const std::vector<int32_t> stored{130, 0, 63, 64, 191};
  Rng rng(1);
  const std::vector<float> x = random_values(rng, 32 * 2 * 6, 2.0f);
  for (const DType dtype : kCacheTypes)
    for (const KvSide side : {KvSide::k, KvSide::v})
      run_everywhere(
          [&](const Device&) {
            GraphBuilder b;
            const Value cache =
                b.kv_store(b.input("cache", dtype, {32, 64, 2, 3}), b.input("x", DType::f32, {32, 2, 6}),
                           b.input("cells", DType::i32, {6}), side);
            const Value rows = b.kv_load(cache, b.input("stored", DType::i32, {5}), side);
            b.output(b.cast(rows, DType::f32), "y");
            return std::move(b).finish().value();
          },
          {{"cache", Bytes(nbytes(dtype, {32, 64, 2, 3}).value())},
           {"x", bytes_of(x)},
           {"cells", bytes_of(cells)},
           {"stored", bytes_of(stored)}},
          [&](const std::vector<float>& y) {
            const std::vector<float> rounded = as_stored(dtype, x);
            std::vector<double> expected;
            for (const int token : {0, 1, 2, 4, 5})
              expected.insert(expected.end(), rounded.begin() + token * 64, rounded.begin() + (token + 1) * 64);
            expect_near(y, expected, 0);
          });
}

TEST(KvOps, RowsMoveBetweenCachesUnchanged) {
  Rng rng(2);
  for (const DType dtype : kCacheTypes)
    for (const KvSide side : {KvSide::k, KvSide::v}) {
      GraphRunner runner;
      const Shape shape{32, 64, 2, 2};
      GraphBuilder b;
      const Value cells = b.input("cells", DType::i32, {3});
      const Value a = b.kv_store(b.input("a", dtype, shape), b.input("x", DType::f32, {32, 2, 3}), cells, side);
      const Value rows = b.output(b.kv_load(a, cells, side), "rows");
      const Value other = b.input("other", DType::i32, {3});
      const Value moved = b.kv_store(b.input("b", dtype, shape), rows, other, side);
      b.output(b.kv_load(moved, other, side), "back");
      const Bytes empty(nbytes(dtype, shape).value());
      ASSERT_OK_AND_ASSIGN(const auto out,
                           runner.run(std::move(b).finish().value(), {{"a", empty},
                                                                      {"b", empty},
                                                                      {"x", bytes_of(random_values(rng, 192))},
                                                                      {"cells", bytes_of<int32_t>({1, 66, 127})},
                                                                      {"other", bytes_of<int32_t>({127, 3, 64})}}));
      EXPECT_EQ(out.at("rows"), out.at("back")) << info(dtype).name;
    }
}

TEST(KvOps, ACellOutOfRangeIsAnError) {
  for (const int32_t bad : {-2, 128, 1 << 30}) {
    GraphRunner runner("", 2);
    const auto run = [&](bool is_store) {
      GraphBuilder b;
      const Value cache = b.input("c", DType::f32, {8, 64, 1, 2}), cells = b.input("cells", DType::i32, {2});
      if (is_store)
        b.output(b.kv_store(cache, b.input("x", DType::f32, {8, 1, 2}), cells, KvSide::k), "y");
      else
        b.output(b.kv_load(cache, cells, KvSide::k), "y");
      return runner.run(std::move(b).finish().value(),
                        {{"c", Bytes(8 * 64 * 2 * 4)}, {"x", Bytes(64)}, {"cells", bytes_of<int32_t>({0, bad})}});
    };
    EXPECT_ERROR(run(true), "cell " + std::to_string(bad) + ", want 0 to 127");
    EXPECT_ERROR(run(false), "cell " + std::to_string(bad) + ", want 0 to 127");
  }
}

// --- attention

// Two sequences: 0 has positions 0-99 less a hole, 1 has positions 60-69 only; their blocks lie in no order.
struct Scene {
  static constexpr int64_t kDim = 32, vDim = 32, n_heads = 6, n_heads_kv = 2, n_blocks = 5, n_max_blocks = 3,
                           n_tokens = 7;
  std::vector<int32_t> positions{99, 98, 10, 64, 65, 69, 3};
  std::vector<int32_t> slots{0, 0, 0, 0, 1, 1, 1};  // the last sees nothing
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
    b.output(b.attention(b.input("q", DType::f32, {kDim, n_heads, n_tokens}), ck, cv,
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
                     rounded.k = as_stored(dtype, scene.k), rounded.v = as_stored(dtype, scene.v);
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
  EXPECT_OK(run([](Scene& s) { s.blocks[2] = 99; }));  // beyond every position: never followed
}

TEST(Attention, NoTokensAreNoWork) {
  run_everywhere(
      [](const Device&) {
        GraphBuilder b;
        const Value none = b.input("none", DType::i32, {0}), cache = b.input("c", DType::f16, {16, 64, 1, 1});
        b.output(b.attention(b.input("q", DType::f32, {16, 2, 0}), cache, cache, none, none,
                             b.input("b", DType::i32, {1}), b.input("v", DType::i64, {1}), {}, {}),
                 "y");
        return std::move(b).finish().value();
      },
      {{"none", {}}, {"q", {}}, {"c", Bytes(2048)}, {"b", Bytes(4)}, {"v", Bytes(8)}},
      [](const auto& y) { EXPECT_TRUE(y.empty()); });
}

}  // namespace
}  // namespace tessera
