// The choice of keys over a paged cache with holes, and attention to chosen keys only.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "tests/cpu/kv_testing.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

// Two sequences: 0 has positions 0-149 except a hole, 1 has only positions 60-69. Their blocks are in no order.
struct ChoiceScene {
  static constexpr int64_t kDim = 32, n_blocks = 6, n_max_blocks = 4, n_tokens = 9;
  int64_t n_heads = 3;
  KeyChoiceParams params{.n_chosen = 7};
  bool is_weighted = true;
  std::vector<int32_t> positions{149, 148, 10, 64, 63, 130, 65, 69, 3};
  std::vector<int32_t> slots{0, 0, 0, 0, 0, 0, 1, 1, 1};  // the last sees nothing
  std::vector<int32_t> blocks{4, 1, 2, -1, 3, 0, -1, -1};
  std::vector<uint64_t> valid = std::vector<uint64_t>(8);
  std::vector<float> q, k, weights;  // k by cell
  std::vector<int32_t> cells;

  explicit ChoiceScene(int64_t heads = 3) : n_heads(heads) {
    Rng rng(3);
    q = random_values(rng, kDim * n_heads * n_tokens);
    k = random_values(rng, kDim * n_blocks * 64);
    weights = random_values(rng, n_heads * n_tokens);
    for (int p = 0; p < 150; ++p)
      if (p < 20 || p > 40) valid[static_cast<size_t>(p / 64)] |= uint64_t{1} << (p % 64);
    for (int p = 60; p < 70; ++p) valid[static_cast<size_t>(4 + p / 64)] |= uint64_t{1} << (p % 64);
    for (int cell = 0; cell < n_blocks * 64; ++cell) cells.push_back(cell);
  }

  int64_t n_sets() const { return is_weighted ? 1 : n_heads; }

  bool is_visible(size_t t, int64_t p) const {
    const auto at = static_cast<size_t>(slots[t] * n_max_blocks + p / 64);
    return p <= positions[t] && (valid[at] >> (p % 64) & 1) != 0;
  }

  double score(size_t t, int64_t set, int64_t p) const {
    const int64_t cell = blocks[static_cast<size_t>(slots[t] * n_max_blocks + p / 64)] * 64 + p % 64;
    double sum = 0;
    for (int64_t h = is_weighted ? 0 : set; h < (is_weighted ? n_heads : set + 1); ++h) {
      double dot = 0;
      for (int64_t i = 0; i < kDim; ++i)
        dot += double{q[(t * static_cast<size_t>(n_heads) + static_cast<size_t>(h)) * kDim + static_cast<size_t>(i)]} *
               k[static_cast<size_t>(cell * kDim + i)];
      sum +=
          is_weighted ? weights[t * static_cast<size_t>(n_heads) + static_cast<size_t>(h)] * std::max(dot, 0.0) : dot;
    }
    return sum;
  }

  /// The chosen positions of a token in double precision, as bits by block.
  std::vector<uint64_t> reference(size_t t, int64_t set) const {
    const int64_t unit = params.unit, n_units = positions[t] / unit + 1;
    std::vector<std::pair<double, int64_t>> best;  // the negative score, for the order, and the unit
    for (int64_t u = 0; u < n_units; ++u) {
      std::optional<double> highest;
      for (int64_t p = u * unit; p < (u + 1) * unit && p <= positions[t]; ++p)
        if (is_visible(t, p)) highest = std::max(highest.value_or(-1e300), score(t, set, p));
      if (highest) best.emplace_back(u > positions[t] / unit - params.n_local ? -1e300 : -*highest, u);
    }
    std::ranges::sort(best);
    best.resize(std::min(best.size(), static_cast<size_t>(params.n_chosen)));
    std::vector<uint64_t> bits(n_max_blocks);
    for (const auto& [score, u] : best)
      for (int64_t p = u * unit; p < (u + 1) * unit && p <= positions[t]; ++p)
        if (is_visible(t, p)) bits[static_cast<size_t>(p / 64)] |= uint64_t{1} << (p % 64);
    return bits;
  }

  std::vector<uint64_t> reference() const {
    std::vector<uint64_t> all;
    for (size_t t = 0; t < n_tokens; ++t)
      for (int64_t set = 0; set < n_sets(); ++set)
        for (const uint64_t word : reference(t, set)) all.push_back(word);
    return all;
  }

  NamedBytes inputs(DType dtype) const {
    return {{"q", bytes_of(q)},
            {"k", bytes_of(k)},
            {"weights", bytes_of(weights)},
            {"cells", bytes_of(cells)},
            {"positions", bytes_of(positions)},
            {"slots", bytes_of(slots)},
            {"blocks", bytes_of(blocks)},
            {"valid", bytes_of(valid)},
            {"ck", Bytes(nbytes(dtype, {kDim, 64, 1, n_blocks}).value())}};
  }

  Graph graph(DType dtype) const {
    GraphBuilder b;
    const Value cells_in = b.input("cells", DType::i32, {n_blocks * 64});
    const Value rows = b.input("k", DType::f32, {kDim, 1, n_blocks * 64});
    const Value ck = b.kv_store(b.input("ck", dtype, {kDim, 64, 1, n_blocks}), rows, cells_in, KvSide::k);
    const Value w = b.input("weights", DType::f32, {n_heads, n_tokens});
    b.output(b.choose_keys(b.input("q", DType::f32, {kDim, n_heads, n_tokens}), ck, is_weighted ? w : Value(),
                           b.input("positions", DType::i32, {n_tokens}), b.input("slots", DType::i32, {n_tokens}),
                           b.input("blocks", DType::i32, {n_max_blocks, 2}),
                           b.input("valid", DType::i64, {n_max_blocks, 2}), params),
             "y");
    return std::move(b).finish().value();
  }

  /// Checks the choice with every instruction set and 1 to 3 threads.
  void expect_reference(DType dtype, const std::string& name) const {
    ChoiceScene rounded = *this;
    rounded.k = as_cached(dtype, k);
    const std::vector<uint64_t> expected = rounded.reference();
    for (Setting& setting : all_settings()) {
      ASSERT_OK_AND_ASSIGN(const NamedBytes y, setting.runner.run(graph(dtype), inputs(dtype)));
      ASSERT_EQ(values_of<uint64_t>(y.at("y")), expected)
          << name << ", " << info(dtype).name << ", " << setting.isa << ", " << setting.n_threads << " threads";
    }
  }
};

TEST(ChooseKeys, TakesTheHighestSumsOfHeads) {
  ChoiceScene scene;
  for (const DType dtype : kCacheTypes) scene.expect_reference(dtype, "sums");
  for (const int64_t n_chosen : {1, 64, 128, 129, 1000}) {
    scene.params.n_chosen = n_chosen;
    scene.expect_reference(DType::f32, std::to_string(n_chosen) + " keys");
  }
}

TEST(ChooseKeys, TakesBlocksForEachHead) {
  ChoiceScene scene;
  scene.is_weighted = false;
  for (const DType dtype : kCacheTypes) scene.expect_reference(dtype, "heads");
  for (const KeyChoiceParams& params : std::vector<KeyChoiceParams>{{.n_chosen = 4, .unit = 3},
                                                                    {.n_chosen = 4, .unit = 3, .n_local = 1},
                                                                    {.n_chosen = 4, .unit = 7, .n_local = 3},
                                                                    {.n_chosen = 2, .unit = 7, .n_local = 5},
                                                                    {.n_chosen = 1, .unit = 64},
                                                                    {.n_chosen = 1, .unit = 100, .n_local = 1},
                                                                    {.n_chosen = 1, .unit = int64_t{1} << 32}}) {
    scene.params = params;
    scene.expect_reference(DType::f16, fmt::format("{} of {}", params.n_chosen, params.unit));
  }
}

// As many heads as DeepSeek V3.2 has, and more than a tile of queries.
TEST(ChooseKeys, TakesManyHeads) {
  for (const int64_t n_heads : {64, 200}) ChoiceScene(n_heads).expect_reference(DType::f16, "many heads");
  ChoiceScene each(40);
  each.is_weighted = false;
  each.expect_reference(DType::f16, "many sets");
}

TEST(ChooseKeys, EqualScoresAreTakenFromTheFirstPositionOn) {
  ChoiceScene scene;
  std::ranges::fill(scene.weights, 0.0f);  // each score is 0 or -0
  scene.weights[1] = -0.0f;
  scene.expect_reference(DType::f32, "zeros");
  scene.is_weighted = false;
  for (size_t i = 0; i < scene.k.size(); ++i) scene.k[i] = scene.k[i % ChoiceScene::kDim];
  scene.expect_reference(DType::f32, "equal keys");
}

TEST(ChooseKeys, NaNIsBelowAllOtherScores) {
  ChoiceScene scene;
  scene.is_weighted = false;
  scene.params.n_chosen = 128;  // of the 129 that the first token sees
  // Position 100 of the first sequence.
  for (int64_t i = 0; i < ChoiceScene::kDim; ++i) scene.k[static_cast<size_t>((64 + 36) * 32 + i)] = std::nanf("");
  for (Setting& setting : all_settings()) {
    ASSERT_OK_AND_ASSIGN(const NamedBytes y, setting.runner.run(scene.graph(DType::f32), scene.inputs(DType::f32)));
    const auto bits = values_of<uint64_t>(y.at("y"));
    EXPECT_EQ(bits[0], scene.valid[0]);
    EXPECT_EQ(bits[1], ~(uint64_t{1} << 36)) << setting.isa;
    EXPECT_EQ(bits[2], scene.valid[2]);
  }
}

TEST(ChooseKeys, RefusesTablesThatPointOutside) {
  const auto run = [](auto change) {
    ChoiceScene scene;
    change(scene);
    return all_settings().front().runner.run(scene.graph(DType::f32), scene.inputs(DType::f32));
  };
  EXPECT_ERROR(run([](ChoiceScene& s) { s.slots[2] = 2; }), "sequence 2, want 0 to 1");
  EXPECT_ERROR(run([](ChoiceScene& s) { s.positions[0] = 256; }), "position 256, want 0 to 255");
  EXPECT_ERROR(run([](ChoiceScene& s) { s.blocks[0] = 6; }), "block 6, want 0 to 5");
  EXPECT_OK(run([](ChoiceScene& s) { s.blocks[3] = 99; }));  // beyond every position: never used
}

// --- attention to chosen keys

struct MaskedAttention {
  static constexpr int64_t kDim = 32, n_heads = 4, n_heads_kv = 2, n_blocks = 3, n_tokens = 6;
  int64_t n_sets = 1;
  AttentionParams params{.scale = 0.5f};
  std::vector<int32_t> positions{5, 63, 64, 100, 149, 150};
  std::vector<float> q, k, v;
  std::vector<uint64_t> chosen;

  explicit MaskedAttention(int64_t sets) : n_sets(sets) {
    Rng rng(5);
    q = random_values(rng, kDim * n_heads * n_tokens);
    k = random_values(rng, kDim * n_heads_kv * n_blocks * 64);
    v = random_values(rng, kDim * n_heads_kv * n_blocks * 64);
    for (int64_t i = 0; i < n_blocks * n_sets * n_tokens; ++i) {
      const uint64_t high = rng.next_u32() & rng.next_u32(), low = rng.next_u32() & rng.next_u32();
      chosen.push_back(high << 32 | low);
    }
  }

  std::vector<double> reference() const {
    std::vector<double> out;
    for (int64_t t = 0; t < n_tokens; ++t)
      for (int64_t h = 0; h < n_heads; ++h) {
        const int64_t kv = h / 2, set = n_sets == 1 ? 0 : kv;
        const uint64_t* bits = &chosen[static_cast<size_t>((t * n_sets + set) * n_blocks)];
        std::vector<double> sum(kDim);
        double total = 0;
        for (int64_t p = 0; p <= positions[static_cast<size_t>(t)]; ++p) {
          const bool is_in_window = params.window == 0 || positions[static_cast<size_t>(t)] - p < params.window;
          if ((bits[p / 64] >> (p % 64) & 1) == 0 || !is_in_window) continue;
          double score = 0;
          for (int64_t i = 0; i < kDim; ++i)
            score += double{q[static_cast<size_t>((t * n_heads + h) * kDim + i)]} *
                     k[static_cast<size_t>((p * n_heads_kv + kv) * kDim + i)];
          const double weight = std::exp(score * double{params.scale});
          total += weight;
          for (int64_t i = 0; i < kDim; ++i)
            sum[static_cast<size_t>(i)] += weight * v[static_cast<size_t>((p * n_heads_kv + kv) * kDim + i)];
        }
        for (const double s : sum) out.push_back(total == 0 ? 0 : s / total);
      }
    return out;
  }

  Graph graph(bool has_chosen = true) const {
    GraphBuilder b;
    const Shape shape{kDim, 64, n_heads_kv, n_blocks}, rows{kDim, n_heads_kv, n_blocks * 64};
    const Value cells = b.input("cells", DType::i32, {n_blocks * 64});
    const Value ck = b.kv_store(b.input("ck", DType::f32, shape), b.input("k", DType::f32, rows), cells, KvSide::k);
    const Value cv = b.kv_store(b.input("cv", DType::f32, shape), b.input("v", DType::f32, rows), cells, KvSide::v);
    const Value bits = b.input("chosen", DType::i64, {n_blocks, n_sets, n_tokens});
    b.output(
        b.paged_attention(b.input("q", DType::f32, {kDim, n_heads, n_tokens}), ck, cv,
                          b.input("positions", DType::i32, {n_tokens}), b.input("slots", DType::i32, {n_tokens}),
                          b.input("blocks", DType::i32, {n_blocks, 1}), b.input("valid", DType::i64, {n_blocks, 1}), {},
                          params, {}, has_chosen ? bits : Value()),
        "y");
    return std::move(b).finish().value();
  }

  NamedBytes inputs() const {
    std::vector<int32_t> cells(n_blocks * 64);
    std::iota(cells.begin(), cells.end(), 0);
    const Bytes cache(nbytes(DType::f32, {kDim, 64, n_heads_kv, n_blocks}).value());
    return {{"q", bytes_of(q)},
            {"k", bytes_of(k)},
            {"v", bytes_of(v)},
            {"cells", bytes_of(cells)},
            {"positions", bytes_of(positions)},
            {"slots", bytes_of(std::vector<int32_t>(n_tokens, 0))},
            {"blocks", bytes_of(std::vector<int32_t>{0, 1, 2})},
            {"valid", bytes_of(std::vector<uint64_t>(n_blocks, ~uint64_t{0}))},
            {"chosen", bytes_of(chosen)},
            {"ck", cache},
            {"cv", cache}};
  }
};

TEST(ChosenKeys, AttentionSeesNoOthers) {
  for (const int64_t n_sets : {1, 2})
    for (const int64_t window : {0, 40}) {
      MaskedAttention attention(n_sets);
      attention.params.window = window;
      attention.chosen[static_cast<size_t>(n_sets * 3)] = 0;  // of the second token, the first block
      run_everywhere([&](const Device&) { return attention.graph(); }, attention.inputs(),
                     [&](const std::vector<float>& y) { expect_near(y, attention.reference(), 1e-5); });
    }
}

TEST(ChosenKeys, AllKeysGiveTheBitsOfNoChoice) {
  MaskedAttention attention(2);
  std::ranges::fill(attention.chosen, ~uint64_t{0});
  for (const bool int16 : {false, true}) {
    attention.params.int16 = int16;
    for (Setting& setting : all_settings()) {
      ASSERT_OK_AND_ASSIGN(const auto all, setting.runner.run_y(attention.graph(), attention.inputs()));
      ASSERT_OK_AND_ASSIGN(const auto none, setting.runner.run_y(attention.graph(false), attention.inputs()));
      EXPECT_TRUE(same_bytes(all, none)) << setting.isa;
    }
  }
}

}  // namespace
}  // namespace tessera
