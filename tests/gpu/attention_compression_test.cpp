// Entries of compressed rows on the device compared with the CPU.
#include "tests/gpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

using GpuCompression = GpuTest;

// Two sequences. The first has 300 positions in blocks from the last to the first, with a hole in 70 to 74 and one in
// 240 to 260; the second has positions 60 to 69. The rows of all other cells are not numbers.
struct CompressionScene {
  int64_t n_channels = 19;  // of an entry
  CompressionParams params{.ratio = 4, .overlaps = true};
  float gate_limit = 3.0f;
  int64_t n_times = 1;
  std::vector<int32_t> positions{3, 7, 63, 67, 75, 127, 299, 251, 10, 63, 67, 71, 31, 199};
  std::vector<int32_t> slots{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0};
  std::vector<int32_t> wanted{0, 1, 9, 2, 4, 3, 5, 6, 7, 8, 0, 1, 2, -1};  // cells of the entries

  static constexpr int64_t kMaxBlocks = 6, kBlocks = 7, kFirstBlocks = 5, kStored = 300;

  int64_t n_row() const { return n_channels * (params.overlaps ? 2 : 1); }

  static std::vector<int32_t> blocks() {
    std::vector<int32_t> all(2 * kMaxBlocks, -1);
    for (int32_t b = 0; b < kFirstBlocks; ++b) all[static_cast<size_t>(b)] = static_cast<int32_t>(kFirstBlocks) - 1 - b;
    for (int32_t b = 0; b < 2; ++b) all[static_cast<size_t>(kMaxBlocks + b)] = static_cast<int32_t>(kFirstBlocks) + b;
    return all;
  }

  static bool is_stored(int64_t slot, int64_t p) {
    if (slot == 1) return p >= 60 && p < 70;
    return p < kStored && !(p >= 70 && p <= 74) && !(p >= 240 && p <= 260);
  }

  static std::vector<uint64_t> valid() {
    std::vector<uint64_t> all(2 * kMaxBlocks);
    for (int64_t slot = 0; slot < 2; ++slot)
      for (int64_t p = 0; p < kMaxBlocks * kKvBlockTokens; ++p)
        if (is_stored(slot, p)) all[static_cast<size_t>(slot * kMaxBlocks + p / 64)] |= uint64_t{1} << p % 64;
    return all;
  }

  // Rows by cell.
  std::vector<float> rows(Rng& rng, float limit) const {
    std::vector<float> values(static_cast<size_t>(n_row() * kBlocks * kKvBlockTokens), kNaN);
    const std::vector<int32_t> table = blocks();
    for (int64_t slot = 0; slot < 2; ++slot)
      for (int64_t p = 0; p < kMaxBlocks * kKvBlockTokens; ++p) {
        if (!is_stored(slot, p)) continue;
        const int64_t block = table[static_cast<size_t>(slot * kMaxBlocks + p / kKvBlockTokens)];
        std::ranges::copy(random_values(rng, n_row(), limit),
                          values.begin() + (block * kKvBlockTokens + p % kKvBlockTokens) * n_row());
      }
    return values;
  }

  Bytes repeated(const std::vector<int32_t>& some) const {
    std::vector<int32_t> all;
    for (int64_t i = 0; i < n_times; ++i) all.insert(all.end(), some.begin(), some.end());
    return bytes_of(all);
  }

  TestGraph graph() const {
    const CompressionScene s = *this;
    const int64_t n_cells = kBlocks * kKvBlockTokens, n_tokens = std::ssize(positions) * n_times, n = n_row();
    std::vector<int32_t> cells;
    for (int32_t cell = 0; cell < n_cells; ++cell) cells.push_back(cell);
    Rng rng(6);
    TestGraph test;
    for (const char* name : {"row cache", "gate cache"})
      test.tensors.push_back({name, DType::f32, {n, kKvBlockTokens, 1, kBlocks}, {}});
    test.build = [=](GraphBuilder& b, const std::vector<Value>& tensors) {
      const Value all = b.input("all", DType::i32, {n_cells});
      const Value rows = b.kv_store(tensors[0], b.input("rows", DType::f32, {n, 1, n_cells}), all, KvSide::k);
      const Value gates = b.kv_store(tensors[1], b.input("gates", DType::f32, {n, 1, n_cells}), all, KvSide::v);
      b.output(
          b.compress_rows(b.input("bias", DType::f32, {n, s.params.ratio}), rows, gates,
                          b.input("positions", DType::i32, {n_tokens}), b.input("slots", DType::i32, {n_tokens}),
                          b.input("blocks", DType::i32, {kMaxBlocks, 2}), b.input("valid", DType::i64, {kMaxBlocks, 2}),
                          b.input("cells", DType::i32, {n_tokens}), s.params),
          "y");
    };
    test.inputs = {{"all", bytes_of(cells)},
                   {"rows", bytes_of(rows(rng, 1.0f))},
                   {"gates", bytes_of(rows(rng, gate_limit))},
                   {"bias", bytes_of(random_values(rng, n * params.ratio))},
                   {"positions", repeated(positions)},
                   {"slots", repeated(slots)},
                   {"blocks", bytes_of(blocks())},
                   {"valid", bytes_of(valid())},
                   {"cells", repeated(wanted)}};
    return test;
  }

  void expect_as_on_cpu() const {
    const std::string what =
        fmt::format("{} channels, ratio {}, overlaps: {}", n_channels, params.ratio, params.overlaps);
    testing::expect_as_on_cpu(graph(), kRowBound, what);
    testing::expect_as_on_cpu(graph(), kRowBound, what + ", 64 lanes", gpu_device_of_64_lanes());
  }

  std::vector<float> entries() const {
    const auto got = run_on(*gpu_device(), graph());
    EXPECT_OK(got);
    return got ? values_of<float>(got->outputs.at("y")) : std::vector<float>();
  }
};

TEST_F(GpuCompression, EntriesAreTheCpus) {
  CompressionScene scene;
  for (const int64_t n_channels : {1, 19, 130})
    for (const CompressionParams& params : std::vector<CompressionParams>{{.ratio = 1},
                                                                          {.ratio = 1, .overlaps = true},
                                                                          {.ratio = 4},
                                                                          {.ratio = 4, .overlaps = true},
                                                                          {.ratio = 7, .overlaps = true},
                                                                          {.ratio = 128},
                                                                          {.ratio = 128, .overlaps = true},
                                                                          {.ratio = 500, .overlaps = true}}) {
      scene.n_channels = n_channels;
      scene.params = params;
      scene.expect_as_on_cpu();
    }
}

// Without a maximum, the exponentials of these gates would overflow or all be 0.
TEST_F(GpuCompression, TakesLargeGates) {
  CompressionScene scene;
  scene.gate_limit = 3000.0f;
  scene.expect_as_on_cpu();
  scene.params = {.ratio = 128};
  scene.expect_as_on_cpu();
}

// Token 7's rows are all in a hole, those of token 12 are before the sequence, and no entry of the last one is wanted.
TEST_F(GpuCompression, WithoutRowsOrACellTheResultIsZero) {
  CompressionScene scene;
  const std::vector<float> y = scene.entries();
  ASSERT_EQ(std::ssize(y), 14 * scene.n_channels);
  for (int64_t t = 0; t < 14; ++t) {
    const auto begin = y.begin() + t * scene.n_channels;
    const bool is_zero = std::all_of(begin, begin + scene.n_channels, [](float v) { return v == 0.0f; });
    EXPECT_EQ(is_zero, t == 7 || t >= 12) << t;
  }
}

TEST_F(GpuCompression, ManyTokensHaveTheBitsOfFew) {
  CompressionScene scene;
  scene.n_channels = 130;
  const std::vector<float> few = scene.entries();
  scene.n_times = 3;
  const std::vector<float> many = scene.entries();
  ASSERT_EQ(many.size(), 3 * few.size());
  for (size_t i = 0; i < many.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(many[i]), std::bit_cast<uint32_t>(few[i % few.size()])) << i;
}

TEST_F(GpuCompression, WhatIsOutOfRangeFailsTheRun) {
  const auto with = [](const std::string& input, const std::vector<int32_t>& values) {
    TestGraph test = CompressionScene().graph();
    std::ranges::copy(bytes_of(values), test.inputs[input].begin());  // the first ones
    return run_on(*gpu_device(), test);
  };
  EXPECT_ERROR(with("slots", {0, 0, 2}), "sequence 2, want 0 to 1");
  EXPECT_ERROR(with("positions", {384}), "position 384, want 0 to 383");
  EXPECT_ERROR(with("positions", {-1}), "position -1, want 0 to 383");
  EXPECT_ERROR(with("blocks", {7}), "block 7, want 0 to 6");
  EXPECT_ERROR(with("blocks", {-2}), "block -2, want 0 to 6");
  EXPECT_OK(with("cells", std::vector<int32_t>(14, -1)));
  CompressionScene unused;  // no entry is wanted of what is out of range
  unused.positions[13] = -1;
  unused.slots[13] = 9;
  EXPECT_OK(run_on(*gpu_device(), unused.graph()));
}

}  // namespace
}  // namespace tessera
