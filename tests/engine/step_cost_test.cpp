// The cost of a step against sums over the story model's shapes: 5 layers of width 64, 8 heads and 4 KV heads of 8,
// hidden size 172, 512 tokens.
#include <functional>
#include <set>

#include "tessera/graph/builder.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera::testing {
namespace {

constexpr double kLayerWeights = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 172;  // q and output; k and v; gate, up and down
constexpr double kHead = 64 * 512;

void expect_cost(const std::string& path, const SessionOptions& options, int64_t n_tokens, int64_t n_outputs,
                 const StepCost& want) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
  ASSERT_OK_AND_ASSIGN(const StepCost cost, session->step_cost(n_tokens, n_outputs));
  EXPECT_EQ(cost.macs, want.macs);
  EXPECT_EQ(cost.int8_macs, want.int8_macs);
  EXPECT_EQ(cost.weight_bytes, want.weight_bytes);
  EXPECT_EQ(cost.macs_per_pair, want.macs_per_pair);
  EXPECT_EQ(cost.kv_bytes_per_position, want.kv_bytes_per_position);
}

TEST(StepCost, OneTokenTouchesEachWeightOnce) {
  const std::string path = story_model();
  expect_cost(path, {.n_ctx = 64}, 1, 1,
              {.macs = 5 * kLayerWeights + kHead,
               .int8_macs = 0,
               .weight_bytes = 4 * (5 * kLayerWeights + kHead),
               .macs_per_pair = 5 * 8 * (8 + 8),
               .kv_bytes_per_position = 5 * 4 * (8 + 8) * 2});
}

// After the last layer's attention, only tokens with requested logits are computed; here one of three.
TEST(StepCost, TokensWithoutLogitsSkipTheEnd) {
  const std::string path = story_model();
  const double last_layer = 3 * (64 * 64 + 2 * 64 * 32) + 64 * 64 + 3 * 64 * 172;
  expect_cost(path, {.n_ctx = 64, .type_k = DType::f32, .type_v = DType::f32}, 3, 1,
              {.macs = 3 * 4 * kLayerWeights + last_layer + kHead,
               .int8_macs = 0,
               .weight_bytes = 4 * (5 * kLayerWeights + kHead),
               .macs_per_pair = 5 * 8 * (8 + 8),
               .kv_bytes_per_position = 5 * 4 * (8 + 8) * 4});
}

TEST(StepCost, TellsProductsOfBlocksFromProductsOfFloats) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const std::string q8_0, requantize(path, DType::q8_0, "cost-q8_0.gguf"));
  const double floats = 5 * 64 * 172;  // ffn_down: a row of 172 is not a whole number of blocks
  const double blocks = 5 * kLayerWeights + kHead - floats;
  expect_cost(q8_0, {.n_ctx = 64}, 1, 1,
              {.macs = blocks + floats,
               .int8_macs = blocks,
               .weight_bytes = blocks / 32 * 34 + 4 * floats,
               .macs_per_pair = 5 * 8 * (8 + 8),
               .kv_bytes_per_position = 5 * 4 * (8 + 8) * 2});
}

// llama-moe: 2 layers of width 128, 4 experts of width 192, 2 experts per token, 4 heads and 2 KV heads of 32, 256
// tokens.
TEST(StepCost, ATokenTouchesTheExpertsThatItUses) {
  const std::string path = arch_model("llama-moe");
  const double attention = 2 * 128 * 128 + 2 * 128 * 64, router = 128 * 4, expert = 3 * 128 * 192, head = 128 * 256;
  const double weights = 2 * (attention + router + 2 * expert) + head;
  expect_cost(path, {.n_ctx = 64}, 1, 1,
              {.macs = weights,
               .int8_macs = 0,
               .weight_bytes = 4 * weights,
               .macs_per_pair = 2 * 4 * (32 + 32),
               .kv_bytes_per_position = 2 * 2 * (32 + 32) * 2});
  // Three tokens may use all four experts.
  expect_cost(path, {.n_ctx = 64}, 3, 3,
              {.macs = 3 * weights,
               .int8_macs = 0,
               .weight_bytes = 4 * (weights + 2 * 2 * expert),
               .macs_per_pair = 2 * 4 * (32 + 32),
               .kv_bytes_per_position = 2 * 2 * (32 + 32) * 2});
}

// Pairs and positions, one by one.
void expect_counted(const AttentionReach& reach, const std::function<bool(int64_t q, int64_t k)>& attends) {
  for (const int64_t position : {0, 2, 5, 20})
    for (const int64_t n : {1, 3, 12}) {
      int64_t pairs = 0;
      std::set<int64_t> positions;
      for (int64_t q = position; q < position + n; ++q)
        for (int64_t k = 0; k < position + n; ++k)
          if ((!reach.causal || k <= q) && attends(q, k)) {
            ++pairs;
            positions.insert(k);
          }
      const std::string what = fmt::format("{} tokens from {}, window {}", n, position, reach.window);
      EXPECT_EQ(reach.pairs(position, n), pairs) << what;
      EXPECT_EQ(reach.positions(position, n), positions.size()) << what;
    }
}

TEST(AttentionReach, IsBoundedByWindowsAndChunks) {
  for (const bool causal : {true, false}) {
    expect_counted({.causal = causal}, [](int64_t, int64_t) { return true; });
    for (const int64_t window : {1, 4, 9, 100})
      expect_counted({.causal = causal, .window = window},
                     [&](int64_t q, int64_t k) { return std::abs(q - k) < window; });
  }
  for (const int64_t chunk : {1, 4, 9, 100})
    expect_counted({.window = chunk, .chunked = true}, [&](int64_t q, int64_t k) { return q / chunk == k / chunk; });
}

TEST(AttentionReach, IsBoundedByTheChosenKeys) {
  const AttentionReach reach{.n_chosen = 6};
  EXPECT_EQ(reach.pairs(4, 4), 5 + 6 + 6 + 6);
  EXPECT_EQ(reach.positions(0, 4), 4);
  EXPECT_EQ(reach.positions(4, 4), 6);
  EXPECT_EQ(reach.positions(1000, 1), 6);
}

// gemma3: 7 layers, of which the last but one attends to all positions and the others to 16.
TEST(StepCost, LayersWithAWindowStopGrowing) {
  const std::string path = arch_model("gemma3-dense");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64}));
  ASSERT_OK_AND_ASSIGN(const StepCost cost, session->step_cost(1, 1));
  const auto grows_by = [&](int64_t from, int64_t to) {
    return std::pair((cost.macs_at(to, 1) - cost.macs_at(from, 1)) / cost.macs_per_pair,
                     (cost.bytes_at(to, 1) - cost.bytes_at(from, 1)) / cost.kv_bytes_per_position);
  };
  EXPECT_EQ(grows_by(0, 15), std::pair(15.0, 15.0));
  EXPECT_NEAR(grows_by(15, 2015).first, 2000.0 / 7, 1e-9);
  EXPECT_NEAR(grows_by(15, 2015).second, 2000.0 / 7, 1e-9);
}

// A choice scores all keys of its cache, and then attention reads the chosen ones.
TEST(StepCost, ChosenKeysBoundAttentionButNotTheChoice) {
  constexpr int64_t kHeads = 4, kDim = 8, kBlocks = 5;
  GraphBuilder b;
  const auto input = [&](const char* name, DType dtype, const Shape& shape) { return b.input(name, dtype, shape); };
  const Value positions = input("positions", DType::i32, {1}), slots = input("slots", DType::i32, {1});
  const Value blocks = input("blocks", DType::i32, {kBlocks, 1}), valid = input("valid", DType::i64, {kBlocks, 1});
  const Value q = input("q", DType::f32, {kDim, kHeads, 1});
  const Value chosen =
      b.choose_keys(q, input("choice", DType::f16, {kDim, 64, 1, kBlocks}), input("weights", DType::f32, {kHeads, 1}),
                    positions, slots, blocks, valid, {.n_chosen = 3, .unit = 2});
  b.output(b.paged_attention(q, input("k", DType::f16, {kDim, 64, 2, kBlocks}),
                             input("v", DType::f16, {kDim, 64, 2, kBlocks}), positions, slots, blocks, valid, {}, {},
                             {}, chosen),
           "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  const StepCost cost = step_cost(graph);
  EXPECT_EQ(cost.macs_at(2, 1), 3 * kHeads * kDim + 3 * kHeads * 2 * kDim);
  EXPECT_EQ(cost.macs_at(99, 1), 100 * kHeads * kDim + 6 * kHeads * 2 * kDim);
  EXPECT_EQ(cost.bytes_at(99, 1), (100 * kDim + 6 * 2 * 2 * kDim) * 2);
}

}  // namespace
}  // namespace tessera::testing
