// The choice of keys on the device compared with the CPU, which gives the same bits where scores differ clearly.
#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuKeyChoice = GpuTest;

// Two sequences. The first has n_stored positions without a hole in 20 to 40, in blocks from the last to the first; the
// second has positions 60 to 69. The last of the 9 queries sees nothing.
struct ChoiceScene {
  int64_t dim = 32, n_heads = 3, n_stored = 150, n_max_blocks = 4, n_times = 1;
  KeyChoiceParams params{.n_chosen = 7};
  bool is_weighted = true;
  DType type = DType::f32;
  std::vector<int32_t> positions{149, 148, 10, 64, 63, 130, 65, 69, 3};
  std::vector<int32_t> slots{0, 0, 0, 0, 0, 0, 1, 1, 1};
  std::vector<float> q, k, weights;  // k by cell

  explicit ChoiceScene(int64_t heads = 3, int64_t elements = 32, int64_t stored = 150)
      : dim(elements), n_heads(heads), n_stored(stored), n_max_blocks(n_blocks_of_first() + 1) {
    Rng rng(3);
    q = random_values(rng, dim * n_heads * n_queries());
    k = random_values(rng, dim * n_blocks() * kKvBlockTokens);
    weights = random_values(rng, n_heads * n_queries());
    positions[0] = static_cast<int32_t>(n_stored - 1);
  }

  int64_t n_queries() const { return std::ssize(positions); }
  int64_t n_blocks_of_first() const { return (n_stored + kKvBlockTokens - 1) / kKvBlockTokens; }
  int64_t n_blocks() const { return n_blocks_of_first() + 2; }

  std::vector<int32_t> blocks() const {
    std::vector<int32_t> all(static_cast<size_t>(2 * n_max_blocks), -1);
    const auto n = static_cast<int32_t>(n_blocks_of_first());
    for (int32_t b = 0; b < n; ++b) all[static_cast<size_t>(b)] = n - 1 - b;
    for (int32_t b = 0; b < 2; ++b) all[static_cast<size_t>(n_max_blocks + b)] = n + b;
    return all;
  }

  std::vector<uint64_t> valid() const {
    std::vector<uint64_t> all(static_cast<size_t>(2 * n_max_blocks));
    const auto store = [&](int64_t first_block, int64_t p) {
      all[static_cast<size_t>(first_block + p / 64)] |= uint64_t{1} << p % 64;
    };
    for (int64_t p = 0; p < n_stored; ++p)
      if (p < 20 || p > 40) store(0, p);
    for (int64_t p = 60; p < 70; ++p) store(n_max_blocks, p);
    return all;
  }

  template <class T>
  Bytes repeated(const std::vector<T>& some) const {
    std::vector<T> all;
    for (int64_t i = 0; i < n_times; ++i) all.insert(all.end(), some.begin(), some.end());
    return bytes_of(all);
  }

  TestGraph graph() const {
    const ChoiceScene s = *this;
    const int64_t n_cells = n_blocks() * kKvBlockTokens, n_tokens = n_queries() * n_times;
    std::vector<int32_t> cells;
    for (int32_t cell = 0; cell < n_cells; ++cell) cells.push_back(cell);
    TestGraph test;
    test.tensors = {{"ck", type, {dim, kKvBlockTokens, 1, n_blocks()}, {}}};
    test.build = [=](GraphBuilder& b, const std::vector<Value>& tensors) {
      const Value keys = b.kv_store(tensors[0], b.input("k", DType::f32, {s.dim, 1, n_cells}),
                                    b.input("cells", DType::i32, {n_cells}), KvSide::k);
      const Value weights_in = b.input("weights", DType::f32, {s.n_heads, n_tokens});
      b.output(
          b.choose_keys(b.input("q", DType::f32, {s.dim, s.n_heads, n_tokens}), keys,
                        s.is_weighted ? weights_in : Value(), b.input("positions", DType::i32, {n_tokens}),
                        b.input("slots", DType::i32, {n_tokens}), b.input("blocks", DType::i32, {s.n_max_blocks, 2}),
                        b.input("valid", DType::i64, {s.n_max_blocks, 2}), s.params),
          "y");
    };
    test.inputs = {{"q", repeated(q)},
                   {"k", bytes_of(k)},
                   {"weights", repeated(weights)},
                   {"cells", bytes_of(cells)},
                   {"positions", repeated(positions)},
                   {"slots", repeated(slots)},
                   {"blocks", bytes_of(blocks())},
                   {"valid", bytes_of(valid())}};
    return test;
  }

  std::vector<uint64_t> choice_on(const Device& device) const {
    const auto got = run_on(device, graph());
    EXPECT_OK(got);
    return got ? values_of<uint64_t>(got->outputs.at("y")) : std::vector<uint64_t>();
  }

  // The device has another number of invocations in a workgroup than most GPUs, so a second one has 64.
  void expect_as_on_cpu(const std::string& what, bool has_second = true) const {
    static const std::unique_ptr<Device> cpu = cpu::create_device("").value();
    const std::vector<uint64_t> expected = choice_on(*cpu);
    ASSERT_FALSE(expected.empty()) << what;
    EXPECT_EQ(choice_on(*gpu_device()), expected) << what;
    if (!has_second) return;
    EXPECT_EQ(choice_on(*gpu_device_of_64_lanes()), expected) << what << ", 64 lanes";
  }
};

TEST_F(GpuKeyChoice, TakesTheHighestSumsOfHeads) {
  ChoiceScene scene;
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                           DType::q5_1, DType::iq4_nl}) {
    scene.type = type;
    scene.expect_as_on_cpu(std::string(info(type).name), type == DType::f16);  // compiling takes long
  }
  scene.type = DType::f16;
  for (const int64_t n_chosen : {int64_t{1}, int64_t{64}, int64_t{128}, int64_t{129}, int64_t{1} << 40}) {
    scene.params.n_chosen = n_chosen;
    scene.expect_as_on_cpu(fmt::format("{} keys", n_chosen));
  }
}

// Rows of an odd length, rows longer than a part of the queries, and more heads than share one read of a key.
TEST_F(GpuKeyChoice, TakesEveryShape) {
  for (const auto& [n_heads, dim] : {std::pair{3, 19}, {2, 76}, {64, 32}, {33, 128}}) {
    ChoiceScene scene(n_heads, dim);
    for (const bool is_weighted : {true, false}) {
      scene.is_weighted = is_weighted;
      scene.expect_as_on_cpu(fmt::format("{} heads of {}, {}", n_heads, dim, is_weighted ? "weighted" : "each"));
    }
  }
}

TEST_F(GpuKeyChoice, TakesUnitsForEachHead) {
  ChoiceScene scene;
  scene.is_weighted = false;
  scene.type = DType::f16;
  for (const KeyChoiceParams& params :
       std::vector<KeyChoiceParams>{{.n_chosen = 7},
                                    {.n_chosen = 7, .n_local = 3},
                                    {.n_chosen = 4, .unit = 3},
                                    {.n_chosen = 4, .unit = 3, .n_local = 1},
                                    {.n_chosen = 4, .unit = 7, .n_local = 3},
                                    {.n_chosen = 2, .unit = 7, .n_local = 5},
                                    {.n_chosen = 1, .unit = 64},
                                    {.n_chosen = 1, .unit = 100, .n_local = 1},
                                    {.n_chosen = 1, .unit = int64_t{1} << 32, .n_local = int64_t{1} << 40}}) {
    scene.params = params;
    scene.expect_as_on_cpu(fmt::format("{} of {}, {} local", params.n_chosen, params.unit, params.n_local));
  }
}

// Several workgroups rank the keys of a query, and units lie in two of their parts.
TEST_F(GpuKeyChoice, TakesKeysOfALongContext) {
  ChoiceScene scene(3, 32, 1000);
  scene.params.n_chosen = 300;
  scene.expect_as_on_cpu("keys");
  scene.params = {.n_chosen = 11, .unit = 48, .n_local = 1};
  scene.expect_as_on_cpu("units");
  scene.is_weighted = false;
  scene.expect_as_on_cpu("units of each head");
}

TEST_F(GpuKeyChoice, EqualScoresAreTakenFromTheFirstPositionOn) {
  ChoiceScene scene(3, 32, 1000);
  scene.params.n_chosen = 400;
  std::ranges::fill(scene.weights, 0.0f);  // each score is 0 or -0
  scene.weights[1] = -0.0f;
  scene.expect_as_on_cpu("zeros");
  scene.is_weighted = false;
  for (size_t i = 0; i < scene.k.size(); ++i) scene.k[i] = scene.k[i % 32];
  scene.expect_as_on_cpu("equal keys");
  const std::vector<uint64_t> bits = scene.choice_on(*gpu_device());
  ASSERT_GE(bits.size(), 7u);
  EXPECT_EQ(bits[5], ~uint64_t{0});
  EXPECT_EQ(bits[6], (uint64_t{1} << 37) - 1);  // 400 positions after the hole of 21
}

TEST_F(GpuKeyChoice, NaNIsBelowAllOtherScores) {
  ChoiceScene scene;
  scene.is_weighted = false;
  scene.params.n_chosen = 128;  // of the 129 that the first token sees
  const size_t cell = 64 + 36;  // of position 100: the second of three blocks
  for (size_t i = 0; i < 32; ++i) scene.k[cell * 32 + i] = std::nanf("");
  for (const Device* device : {gpu_device(), gpu_device_of_64_lanes()}) {
    const std::vector<uint64_t> bits = scene.choice_on(*device);
    ASSERT_GE(bits.size(), 3u);
    EXPECT_EQ(bits[0], scene.valid()[0]);
    EXPECT_EQ(bits[1], ~(uint64_t{1} << 36));
    EXPECT_EQ(bits[2], scene.valid()[2]);
  }
}

// The ranks of all sets have no room in a table of 8 million positions, so a workgroup takes several, one after the
// other.
TEST_F(GpuKeyChoice, ALargeTableGivesTheBitsOfASmallOne) {
  ChoiceScene scene;
  scene.is_weighted = false;
  scene.params = {.n_chosen = 5, .unit = 3, .n_local = 1};
  const Device& device = *gpu_device_of_64_lanes();
  const std::vector<uint64_t> expected = scene.choice_on(device);
  const auto n_small = static_cast<size_t>(scene.n_max_blocks);
  scene.n_max_blocks = int64_t{1} << 17;
  const std::vector<uint64_t> got = scene.choice_on(device);
  const auto n_large = static_cast<size_t>(scene.n_max_blocks);
  ASSERT_EQ(got.size() * n_small, expected.size() * n_large);
  for (size_t i = 0; i < expected.size() / n_small; ++i)
    for (size_t b = 0; b < n_large; ++b)
      ASSERT_EQ(got[i * n_large + b], b < n_small ? expected[i * n_small + b] : 0u) << "set " << i << ", block " << b;
}

TEST_F(GpuKeyChoice, ManyTokensHaveTheBitsOfFew) {
  ChoiceScene scene;
  const std::vector<uint64_t> few = scene.choice_on(*gpu_device());
  scene.n_times = 4;
  const std::vector<uint64_t> many = scene.choice_on(*gpu_device());
  ASSERT_EQ(many.size(), 4 * few.size());
  for (size_t i = 0; i < many.size(); ++i) ASSERT_EQ(many[i], few[i % few.size()]) << i;
}

TEST_F(GpuKeyChoice, WhatIsOutOfRangeFailsTheRun) {
  const auto error_with = [](const std::string& input, const std::vector<int32_t>& values, const std::string& message) {
    TestGraph test = ChoiceScene().graph();
    std::ranges::copy(bytes_of(values), test.inputs[input].begin());  // the first ones
    EXPECT_ERROR(run_on(*gpu_device(), test), message);
  };
  error_with("slots", {0, 0, 2}, "sequence 2, want 0 to 1");
  error_with("positions", {256}, "position 256, want 0 to 255");
  error_with("blocks", {5}, "block 5, want 0 to 4");
  TestGraph beyond = ChoiceScene().graph();
  const auto unused = bytes_of(std::vector<int32_t>{99});
  std::ranges::copy(unused, beyond.inputs["blocks"].begin() + 3 * 4);  // no position needs it
  EXPECT_OK(run_on(*gpu_device(), beyond));
}

}  // namespace
}  // namespace tessera
