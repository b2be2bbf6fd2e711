// The cost of a step against sums over the story model's shapes: 5 layers of width 64, 8 heads and 4 KV heads of 8,
// hidden size 172, 512 tokens.
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

}  // namespace
}  // namespace tessera::testing
