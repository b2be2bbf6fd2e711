// The KV cache and attention on the device compared with the CPU: every parameter, types of both caches, two sequences.
#include <optional>

#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuAttention = GpuTest;

constexpr int64_t kBlocks = 7, kBlockTokens = 64;

struct AttentionCase {
  std::string name;
  AttentionParams params{.scale = 0.3f};
  DType type = DType::f16;
  std::optional<DType> v_type = {};  // default: the type of K
  bool has_sinks = false, has_bias = false;
  int64_t dim = 24, n_heads = 6, n_heads_kv = 2;
  int64_t n_sets = 0;  // of chosen keys; 0: all keys
};

// Sets of chosen positions by token and set. A block of some has none.
std::vector<uint64_t> random_choice(int64_t n_blocks, int64_t n_sets, int64_t n_tokens) {
  Rng rng(11);
  std::vector<uint64_t> chosen;
  for (int64_t i = 0; i < n_blocks * n_sets * n_tokens; ++i) {
    const uint64_t high = rng.next_u32() & rng.next_u32(), low = rng.next_u32() & rng.next_u32();
    chosen.push_back(i % 5 == 3 ? 0 : high << 32 | low);
  }
  return chosen;
}

// Two sequences with 150 and 70 stored tokens in unordered blocks. The queries are at the end of each, and one is
// elsewhere. Some stored positions are not valid. The queries are repeated n_times.
TestGraph graph_of(const AttentionCase& c, int64_t n_times = 1) {
  const int64_t n_stored = 220, n_queries = 5 * n_times;
  const auto repeated = [&]<typename T>(const std::vector<T>& some) {
    std::vector<T> all;
    for (int64_t i = 0; i < n_times; ++i) all.insert(all.end(), some.begin(), some.end());
    return bytes_of(all);
  };
  std::vector<int32_t> cells;
  const std::vector<int32_t> blocks = {4, 0, 6, -1, 2, 5, -1, -1};  // [4, 2]
  for (int32_t p = 0; p < 150; ++p) cells.push_back(blocks[static_cast<size_t>(p / 64)] * 64 + p % 64);
  for (int32_t p = 0; p < 70; ++p) cells.push_back(blocks[static_cast<size_t>(4 + p / 64)] * 64 + p % 64);
  cells[6] = -1;  // not stored, and not valid below
  const uint64_t all = ~uint64_t{0};
  const std::vector<uint64_t> valid = {all & ~uint64_t{0xf0}, all, (uint64_t{1} << 22) - 1, 0, all, 63, 0, 0};
  Rng rng(7);
  const bool has_v = c.params.latent_v == 0;
  TestGraph test;
  test.tensors = {{"k", c.type, {c.dim, kBlockTokens, c.n_heads_kv, kBlocks}, {}},
                  {"v", c.v_type.value_or(c.type), {c.dim, kBlockTokens, c.n_heads_kv, kBlocks}, {}},
                  {"sinks", DType::f32, {c.n_heads}, bytes_of(random_values(rng, c.n_heads))},
                  {"bias", DType::f32, {c.n_heads, 8}, bytes_of(random_values(rng, c.n_heads * 8))}};
  test.build = [=](GraphBuilder& b, const std::vector<Value>& tensors) {
    const Value at = b.input("cells", DType::i32, {n_stored});
    const Shape rows{c.dim, c.n_heads_kv, n_stored};
    const Value k = b.kv_store(tensors[0], b.input("k_rows", DType::f32, rows), at, KvSide::k);
    const Value v = b.kv_store(tensors[1], b.input("v_rows", DType::f32, rows), at, KvSide::v);
    b.output(b.paged_attention(b.input("q", DType::f32, {c.dim, c.n_heads, n_queries}), k, has_v ? v : Value{},
                               b.input("positions", DType::i32, {n_queries}), b.input("slots", DType::i32, {n_queries}),
                               b.input("blocks", DType::i32, {4, 2}), b.input("valid", DType::i64, {4, 2}),
                               c.has_sinks ? tensors[2] : Value{}, c.params, c.has_bias ? tensors[3] : Value{},
                               c.n_sets > 0 ? b.input("chosen", DType::i64, {4, c.n_sets, n_queries}) : Value{}),
             "y");
    b.output(b.cast(b.kv_load(k, b.input("load", DType::i32, {4}), KvSide::k), DType::f32), "loaded");
  };
  test.inputs = {{"cells", bytes_of(cells)},
                 {"k_rows", bytes_of(random_values(rng, c.dim * c.n_heads_kv * n_stored))},
                 {"v_rows", bytes_of(random_values(rng, c.dim * c.n_heads_kv * n_stored))},
                 {"q", repeated(random_values(rng, c.dim * c.n_heads * 5, 4.0f))},
                 {"positions", repeated(std::vector<int32_t>{148, 149, 63, 69, 0})},
                 {"slots", repeated(std::vector<int32_t>{0, 0, 0, 1, 1})},
                 {"blocks", bytes_of(blocks)},
                 {"valid", bytes_of(valid)},
                 {"chosen", repeated(random_choice(4, c.n_sets, 5))},
                 {"load", bytes_of<int32_t>({0, 447, 128, 6 * 64 + 21})}};
  return test;
}

TEST_F(GpuAttention, EveryParameterIsAsOnTheCpu) {
  std::vector<AttentionCase> cases = {{.name = "plain"},
                                      {.name = "f32", .type = DType::f32},
                                      {.name = "bf16", .type = DType::bf16},
                                      {.name = "odd dim", .type = DType::f32, .dim = 19},
                                      {.name = "one head each", .n_heads = 2},
                                      {.name = "sinks", .has_sinks = true},
                                      {.name = "bias", .has_bias = true}};
  cases.push_back({.name = "window", .params = {.scale = 0.3f, .window = 70}});
  cases.push_back({.name = "chunks", .params = {.scale = 0.3f, .window = 20, .chunked = true}});
  cases.push_back({.name = "all to all", .params = {.scale = 0.3f, .causal = false}});
  cases.push_back({.name = "window to both sides", .params = {.scale = 0.3f, .causal = false, .window = 9}});
  cases.push_back({.name = "soft cap", .params = {.scale = 1.0f, .soft_cap = 5.0f}});
  cases.push_back({.name = "alibi", .params = {.scale = 0.3f, .max_alibi = 8.0f}});
  cases.push_back({.name = "alibi and bias", .params = {.scale = 0.3f, .max_alibi = 8.0f}, .has_bias = true});
  cases.push_back({.name = "bias to both sides", .params = {.scale = 0.3f, .causal = false}, .has_bias = true});
  cases.push_back({.name = "V in K", .params = {.scale = 0.3f, .latent_v = 15}});
  cases.push_back({.name = "chosen, V in K", .params = {.scale = 0.3f, .latent_v = 15}, .n_sets = 1});
  cases.push_back({.name = "chosen", .n_sets = 1});
  cases.push_back({.name = "chosen, sets", .has_sinks = true, .n_sets = 2});
  cases.push_back({.name = "chosen, window", .params = {.scale = 0.3f, .window = 70}, .n_sets = 2});
  for (const AttentionCase& c : cases) expect_as_on_cpu(graph_of(c), 1e-11, c.name);  // sums in another order
  for (const AttentionCase& c : {cases[0], cases[3], cases[15], cases.back()})
    expect_as_on_cpu(graph_of(c), 1e-11, c.name + ", 64 lanes", gpu_device_of_64_lanes());
}

// Q8_0 and the formats of four and five bits, with the same bytes as on the CPU. Rows of one and of three blocks end
// within a word.
TEST_F(GpuAttention, QuantizedCachesAreAsOnTheCpu) {
  std::vector<AttentionCase> cases = {
      {.name = "q8_0 and f16", .type = DType::q8_0, .v_type = DType::f16, .dim = 32},
      {.name = "f32 and q5_0", .type = DType::f32, .v_type = DType::q5_0, .dim = 96},
      {.name = "V in K, q8_0", .params = {.scale = 0.3f, .latent_v = 72}, .type = DType::q8_0, .dim = 96}};
  for (const DType type : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl})
    cases.push_back({.name = std::string(info(type).name), .type = type, .dim = type == DType::q4_0 ? 32 : 64});
  for (const AttentionCase& c : cases) expect_as_on_cpu(graph_of(c), 1e-11, c.name);  // sums in another order
}

TEST_F(GpuAttention, NothingSeenGivesZeros) {
  TestGraph test = graph_of({.name = "nothing", .type = DType::f32});
  test.inputs["valid"] = bytes_of(std::vector<uint64_t>(8, 0));
  ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
  for (const float v : values_of<float>(got.outputs.at("y"))) ASSERT_EQ(v, 0.0f);
}

// With many queries, a workgroup takes several, which belong to two sequences here.
TEST_F(GpuAttention, ManyQueriesHaveTheBitsOfFew) {
  const AttentionCase cases[] = {
      {.name = "plain"},
      {.name = "window", .params = {.scale = 0.3f, .window = 40}, .dim = 64},
      {.name = "chunks", .params = {.scale = 0.3f, .window = 40, .chunked = true}, .dim = 64},
      {.name = "slopes", .params = {.scale = 0.3f, .max_alibi = 8.0f}, .type = DType::bf16, .dim = 128},
      {.name = "bias", .params = {.scale = 0.3f, .causal = false}, .type = DType::f32, .has_bias = true},
      {.name = "cap and sinks",
       .params = {.scale = 0.3f, .soft_cap = 5.0f},
       .type = DType::q8_0,
       .has_sinks = true,
       .dim = 256,
       .n_heads = 4,
       .n_heads_kv = 4},
      {.name = "large", .v_type = DType::f32, .dim = 512, .n_heads = 2, .n_heads_kv = 1},
      {.name = "many heads", .n_heads = 40, .n_heads_kv = 2},
      {.name = "chosen", .dim = 64, .n_sets = 1},
      {.name = "chosen, sets", .params = {.scale = 0.3f, .window = 70}, .dim = 64, .n_sets = 2}};
  for (const AttentionCase& c : cases) {
    const Device& device = *gpu_device_of_64_lanes();
    ASSERT_OK_AND_ASSIGN(const TestOutputs few, run_on(device, graph_of(c)));
    ASSERT_OK_AND_ASSIGN(const TestOutputs many, run_on(device, graph_of(c, 4)));
    const auto y = values_of<float>(few.outputs.at("y")), all = values_of<float>(many.outputs.at("y"));
    ASSERT_EQ(all.size(), 4 * y.size());
    for (size_t i = 0; i < all.size(); i += y.size())
      EXPECT_TRUE(same_bytes(
          y, {all.begin() + static_cast<std::ptrdiff_t>(i), all.begin() + static_cast<std::ptrdiff_t>(i + y.size())}))
          << c.name << ' ' << i / y.size();
  }
}

// The bits of a query do not depend on the other queries, or on the number of runs.
TEST_F(GpuAttention, RunsAgainWithTheSameBits) {
  const TestGraph test = graph_of({.name = "again"});
  ASSERT_OK_AND_ASSIGN(const TestOutputs once, run_on(*gpu_device(), test));
  ASSERT_OK_AND_ASSIGN(const TestOutputs again, run_on(*gpu_device(), test, 3));
  EXPECT_EQ(once.outputs.at("y"), again.outputs.at("y"));
  EXPECT_EQ(once.outputs.at("loaded"), again.outputs.at("loaded"));
}

// One sequence of 1300 tokens in a table of 24 blocks: three splits. The queries are the last n_queries positions.
TestGraph long_graph_of(int64_t n_queries, const AttentionParams& params, DType type, bool has_sinks,
                        int64_t n_sets = 0) {
  constexpr int64_t kStored = 1300, kTable = 24, kHeads = 4, kHeadsKv = 2, kDim = 64;
  std::vector<int32_t> cells, blocks, positions;
  std::vector<uint64_t> valid(kTable, ~uint64_t{0});
  for (int32_t b = 0; b < kTable; ++b) blocks.push_back(b < 21 ? b * 5 % 21 : -1);
  for (int32_t p = 0; p < kStored; ++p) cells.push_back(blocks[static_cast<size_t>(p / 64)] * 64 + p % 64);
  for (auto p = static_cast<int32_t>(kStored - n_queries); p < kStored; ++p) positions.push_back(p);
  valid[20] = (uint64_t{1} << kStored % 64) - 1;
  Rng rng(9);
  TestGraph test;
  const Shape cache{kDim, kBlockTokens, kHeadsKv, 21}, rows{kDim, kHeadsKv, kStored};
  test.tensors = {{"k", type, cache, {}},
                  {"v", type, cache, {}},
                  {"sinks", DType::f32, {kHeads}, bytes_of(random_values(rng, kHeads))}};
  test.build = [=](GraphBuilder& b, const std::vector<Value>& tensors) {
    const Value at = b.input("cells", DType::i32, {kStored});
    const Value k = b.kv_store(tensors[0], b.input("k_rows", DType::f32, rows), at, KvSide::k);
    const Value v = b.kv_store(tensors[1], b.input("v_rows", DType::f32, rows), at, KvSide::v);
    // Two operations: the second waits for the scratch memory of the first.
    for (const char* name : {"y", "z"})
      b.output(
          b.paged_attention(
              b.input(name + std::string("_q"), DType::f32, {kDim, kHeads, n_queries}), k, v,
              b.input(name + std::string("_p"), DType::i32, {n_queries}),
              b.input(name + std::string("_s"), DType::i32, {n_queries}),
              b.input(name + std::string("_b"), DType::i32, {kTable, 1}),
              b.input(name + std::string("_m"), DType::i64, {kTable, 1}), has_sinks ? tensors[2] : Value{}, params, {},
              n_sets > 0 ? b.input(name + std::string("_c"), DType::i64, {kTable, n_sets, n_queries}) : Value{}),
          name);
  };
  test.inputs = {{"cells", bytes_of(cells)},
                 {"k_rows", bytes_of(random_values(rng, rows.n_elements()))},
                 {"v_rows", bytes_of(random_values(rng, rows.n_elements()))}};
  const std::vector<float> q = random_values(rng, kDim * kHeads * 20, 4.0f);
  for (const std::string name : {"y", "z"}) {
    test.inputs[name + "_q"] = bytes_of(std::vector<float>(q.end() - kDim * kHeads * n_queries, q.end()));
    test.inputs[name + "_p"] = bytes_of(positions);
    test.inputs[name + "_s"] = bytes_of(std::vector<int32_t>(static_cast<size_t>(n_queries), 0));
    test.inputs[name + "_b"] = bytes_of(blocks);
    test.inputs[name + "_m"] = bytes_of(valid);
    const std::vector<uint64_t> chosen = random_choice(kTable, n_sets, 20);
    test.inputs[name + "_c"] =
        bytes_of(std::vector<uint64_t>(chosen.end() - kTable * n_sets * n_queries, chosen.end()));
  }
  return test;
}

// With 20 queries, each workgroup computes all splits. With few queries, each workgroup computes one split and a second
// pass merges them. Both give the same bits.
TEST_F(GpuAttention, SplitsOfALongContext) {
  struct {
    const char* name;
    AttentionParams params;
    DType type;
    bool has_sinks;
    int64_t n_sets = 0;
  } const cases[] = {{"long", {.scale = 0.3f}, DType::f16, false},
                     {"long, chosen", {.scale = 0.3f}, DType::f16, false, 1},
                     {"long, chosen, sets", {.scale = 0.3f}, DType::q8_0, true, 2},
                     {"long, sinks", {.scale = 0.3f}, DType::q8_0, true},
                     {"long, window", {.scale = 0.3f, .window = 700}, DType::f32, false},
                     {"long, all to all", {.scale = 0.3f, .causal = false}, DType::f32, false}};
  for (const auto& c : cases) {
    const TestGraph whole = long_graph_of(20, c.params, c.type, c.has_sinks, c.n_sets);
    expect_as_on_cpu(whole, 1e-11, c.name);  // sums in another order
    if (c.has_sinks) expect_as_on_cpu(whole, 1e-11, "64 lanes", gpu_device_of_64_lanes());
    ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*gpu_device(), whole));
    const auto all = values_of<float>(expected.outputs.at("y"));
    EXPECT_EQ(expected.outputs.at("y"), expected.outputs.at("z")) << c.name;
    ASSERT_OK_AND_ASSIGN(const TestOutputs tiles, run_on(*gpu_device_of_64_lanes(), whole));
    ASSERT_OK_AND_ASSIGN(const TestOutputs splits,
                         run_on(*gpu_device_of_64_lanes(), long_graph_of(1, c.params, c.type, c.has_sinks, c.n_sets)));
    const auto tile = values_of<float>(tiles.outputs.at("z")), split = values_of<float>(splits.outputs.at("z"));
    EXPECT_TRUE(same_bytes(split, {tile.end() - static_cast<std::ptrdiff_t>(split.size()), tile.end()})) << c.name;
    for (const int64_t n_queries : {1, 16}) {
      ASSERT_OK_AND_ASSIGN(const TestOutputs got,
                           run_on(*gpu_device(), long_graph_of(n_queries, c.params, c.type, c.has_sinks, c.n_sets)));
      const auto few = values_of<float>(got.outputs.at("y"));
      EXPECT_TRUE(same_bytes(few, {all.end() - static_cast<std::ptrdiff_t>(few.size()), all.end()}))
          << c.name << ", " << n_queries;
      EXPECT_EQ(got.outputs.at("y"), got.outputs.at("z")) << c.name << ", " << n_queries;
    }
  }
}

TEST_F(GpuAttention, WhatIsOutOfRangeFailsTheRun) {
  const auto error_with = [](const std::string& input, const std::vector<int32_t>& values, const std::string& message) {
    TestGraph test = graph_of({.name = "bad"});
    Bytes bytes = bytes_of(values);
    std::ranges::copy(bytes, test.inputs[input].begin());  // the first ones
    EXPECT_ERROR(run_on(*gpu_device(), test), message);
  };
  error_with("cells", {7 * 64}, "cell 448, want 0 to 447");
  error_with("cells", {-2}, "cell -2, want 0 to 447");
  error_with("slots", {0, 0, 2, 1, 1}, "sequence 2, want 0 to 1");
  error_with("positions", {0, 0, 256, 0, 0}, "position 256, want 0 to 255");
  error_with("blocks", {4, 7, 6, -1, 2, 5, -1, -1}, "block 7, want 0 to 6");
}

}  // namespace
}  // namespace tessera
