// Entries of compressed rows: the formula in double precision over caches with holes, and broken tables.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/cpu/kernels_testing.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

// Two sequences in one batch. Their blocks are in no order. Sequence 0 has a hole at 20 to 40 and no block 2; sequence
// 1 has positions 60 to 149 only.
struct CompressionScene {
  static constexpr int64_t n_blocks = 6, n_max_blocks = 4;
  CompressionParams params{.ratio = 4};
  int64_t dim = 16;
  std::vector<int32_t> positions, slots, cells;
  std::vector<int32_t> blocks{4, 1, -1, 5, 3, 0, 2, -1};
  std::vector<uint64_t> valid = std::vector<uint64_t>(8);
  std::vector<float> rows, gates, bias;  // rows and gates by cell

  CompressionScene(const CompressionParams& p, int64_t n_channels) : params(p), dim(n_channels) {
    Rng rng(static_cast<uint64_t>(dim));
    rows = random_values(rng, row_dim() * n_blocks * 64);
    gates = random_values(rng, row_dim() * n_blocks * 64, 3);
    bias = random_values(rng, row_dim() * params.ratio, 2);
    for (int position = 0; position < 256; ++position) {
      const uint64_t bit = uint64_t{1} << (position % 64);
      if (position < 20 || position > 40) valid[static_cast<size_t>(position / 64)] |= bit;
      if (position >= 60 && position < 150) valid[static_cast<size_t>(4 + position / 64)] |= bit;
    }
    // Tokens that complete an entry, and others.
    for (const int slot : {0, 1})
      for (int position = slot == 0 ? 0 : 60; position < (slot == 0 ? 256 : 150); position += slot == 0 ? 1 : 3) {
        positions.push_back(position);
        slots.push_back(slot);
        const auto entry = static_cast<int32_t>((position + 1) / params.ratio - 1);
        cells.push_back((position + 1) % params.ratio == 0 ? entry : -1);
      }
  }

  int64_t row_dim() const { return dim * (params.overlaps ? 2 : 1); }
  int64_t n_tokens() const { return static_cast<int64_t>(positions.size()); }

  std::vector<double> reference() const {
    std::vector<double> out;
    for (size_t t = 0; t < positions.size(); ++t)
      for (int64_t c = 0; c < dim; ++c) out.push_back(cells[t] < 0 ? 0 : channel(t, c));
    return out;
  }

  double channel(size_t t, int64_t c) const {
    const int64_t end = positions[t] + 1;
    double total = 0, sum = 0;
    for (int64_t p = std::max<int64_t>(end - params.ratio * (params.overlaps ? 2 : 1), 0); p < end; ++p) {
      const auto at = static_cast<size_t>(slots[t] * n_max_blocks + p / 64);
      if (blocks[at] < 0 || (valid[at] >> (p % 64) & 1) == 0) continue;
      const int64_t i = c + (params.overlaps && p >= end - params.ratio ? dim : 0);
      const auto cached = static_cast<size_t>((blocks[at] * 64 + p % 64) * row_dim() + i);
      const double weight =
          std::exp(double{gates[cached]} + bias[static_cast<size_t>(p % params.ratio * row_dim() + i)]);
      total += weight, sum += weight * rows[cached];
    }
    return total == 0 ? 0 : sum / total;
  }

  Graph graph() const {
    GraphBuilder b;
    const Value at = b.input("at", DType::i32, {n_blocks * 64});
    const auto cache = [&](const std::string& name, KvSide side) {
      return b.kv_store(b.input(name, DType::f32, {row_dim(), 64, 1, n_blocks}),
                        b.input(name + ".values", DType::f32, {row_dim(), 1, n_blocks * 64}), at, side);
    };
    const Value k = cache("rows", KvSide::k), v = cache("gates", KvSide::v);
    b.output(b.compress_rows(b.input("bias", DType::f32, {row_dim(), params.ratio}), k, v,
                             b.input("positions", DType::i32, {n_tokens()}), b.input("slots", DType::i32, {n_tokens()}),
                             b.input("blocks", DType::i32, {n_max_blocks, 2}),
                             b.input("valid", DType::i64, {n_max_blocks, 2}),
                             b.input("cells", DType::i32, {n_tokens()}), params),
             "y");
    return std::move(b).finish().value();
  }

  NamedBytes inputs() const {
    std::vector<int32_t> at(n_blocks * 64);
    std::iota(at.begin(), at.end(), 0);
    const Bytes cache(nbytes(DType::f32, {row_dim(), 64, 1, n_blocks}).value());
    return {{"at", bytes_of(at)},
            {"rows", cache},
            {"rows.values", bytes_of(rows)},
            {"gates", cache},
            {"gates.values", bytes_of(gates)},
            {"bias", bytes_of(bias)},
            {"positions", bytes_of(positions)},
            {"slots", bytes_of(slots)},
            {"blocks", bytes_of(blocks)},
            {"valid", bytes_of(valid)},
            {"cells", bytes_of(cells)}};
  }

  void expect_reference() const {
    run_everywhere([&](const Device&) { return graph(); }, inputs(),
                   [&](const std::vector<float>& y) { expect_near(y, reference(), 1e-5); });
  }
};

TEST(CompressRows, MatchesTheFormula) {
  for (const bool overlaps : {false, true})
    for (const int64_t ratio : {1, 3, 4, 100, 128})
      for (const int64_t dim : {1, 16, 33, 70})
        CompressionScene({.ratio = ratio, .overlaps = overlaps}, dim).expect_reference();
}

// An entry that reads more positions than the table has.
TEST(CompressRows, OfALongEntry) {
  for (const bool overlaps : {false, true}) {
    CompressionScene scene({.ratio = 1000, .overlaps = overlaps}, 5);
    for (size_t t = 0; t < scene.cells.size(); t += 50) scene.cells[t] = 0;
    scene.expect_reference();
  }
}

// The first entry of a sequence has no positions before it, and no sequence is read across its start.
TEST(CompressRows, TheFirstEntryReadsOnlyItsOwnPositions) {
  CompressionScene scene({.ratio = 4, .overlaps = true}, 16);
  scene.positions = {3}, scene.slots = {0}, scene.cells = {0};
  scene.expect_reference();
  const auto before = all_settings().front().runner.run_y(scene.graph(), scene.inputs());
  std::ranges::fill(scene.rows, 7.0f);
  const auto after = all_settings().front().runner.run_y(scene.graph(), scene.inputs());
  ASSERT_OK(before);
  ASSERT_OK(after);
  EXPECT_FALSE(same_bytes(*before, *after));
  for (const float y : *after) EXPECT_FLOAT_EQ(y, 7.0f);  // weights add up to 1
}

TEST(CompressRows, WithoutRowsIsZero) {
  CompressionScene scene({.ratio = 4, .overlaps = true}, 20);
  std::ranges::fill(scene.valid, uint64_t{0});
  for (Setting& setting : all_settings()) {
    ASSERT_OK_AND_ASSIGN(const auto y, setting.runner.run_y(scene.graph(), scene.inputs()));
    EXPECT_TRUE(same_bytes(y, std::vector<float>(y.size(), 0.0f)));
  }
}

TEST(CompressRows, LargeGatesDoNotOverflow) {
  CompressionScene scene({.ratio = 4}, 16);
  for (float& gate : scene.gates) gate *= 1e4f;
  for (Setting& setting : all_settings()) {
    ASSERT_OK_AND_ASSIGN(const auto y, setting.runner.run_y(scene.graph(), scene.inputs()));
    for (const float v : y) ASSERT_TRUE(std::abs(v) <= 1.0f) << v;
  }
}

// Its position and sequence are not looked at.
TEST(CompressRows, ATokenWithoutAnEntryReadsNothing) {
  CompressionScene scene({.ratio = 4}, 16);
  scene.positions[0] = -5, scene.slots[0] = 9;
  scene.positions[1] = 100000, scene.slots[1] = -1;
  scene.expect_reference();
}

TEST(CompressRows, AnEntryDoesNotDependOnTheBatch) {
  CompressionScene all({.ratio = 4, .overlaps = true}, 70);
  for (Setting& setting : all_settings()) {
    ASSERT_OK_AND_ASSIGN(const auto together, setting.runner.run_y(all.graph(), all.inputs()));
    for (size_t t = 3; t < all.positions.size(); t += 28) {
      CompressionScene one = all;
      one.positions = {all.positions[t]}, one.slots = {all.slots[t]}, one.cells = {all.cells[t]};
      ASSERT_OK_AND_ASSIGN(const auto alone, setting.runner.run_y(one.graph(), one.inputs()));
      const auto begin = together.begin() + static_cast<std::ptrdiff_t>(t * 70);
      ASSERT_TRUE(same_bytes(alone, {begin, begin + 70})) << setting.isa << ", token " << t;
    }
  }
}

TEST(CompressRows, VectorSetsGiveTheSameBits) {
  const CompressionScene scene({.ratio = 128, .overlaps = true}, 33);
  std::vector<float> first;
  for (Setting& setting : all_settings()) {
    if (setting.isa == "scalar") continue;
    ASSERT_OK_AND_ASSIGN(const auto y, setting.runner.run_y(scene.graph(), scene.inputs()));
    if (first.empty()) first = y;
    EXPECT_TRUE(same_bytes(y, first)) << setting.isa;
  }
}

TEST(CompressRows, RefusesTablesThatPointOutside) {
  const auto run = [](auto change) {
    CompressionScene scene({.ratio = 4}, 16);
    change(scene);
    return all_settings().front().runner.run(scene.graph(), scene.inputs());
  };
  // Token 3 completes the first entry.
  EXPECT_ERROR(run([](CompressionScene& s) { s.slots[3] = 2; }), "sequence 2, want 0 to 1");
  EXPECT_ERROR(run([](CompressionScene& s) { s.slots[3] = -1; }), "sequence -1, want 0 to 1");
  EXPECT_ERROR(run([](CompressionScene& s) { s.positions[3] = 256; }), "position 256, want 0 to 255");
  EXPECT_ERROR(run([](CompressionScene& s) { s.positions[3] = -1; }), "position -1, want 0 to 255");
  EXPECT_ERROR(run([](CompressionScene& s) { s.blocks[0] = 6; }), "block 6, want 0 to 5");
  EXPECT_ERROR(run([](CompressionScene& s) { s.blocks[1] = -2; }), "block -2, want 0 to 5");
  EXPECT_OK(run([](CompressionScene& s) { s.blocks[7] = 99; }));  // beyond every position: never used
}

}  // namespace
}  // namespace tessera
