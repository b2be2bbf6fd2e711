// Attention of a batch without a cache, as in training: the operation that it builds, and refused cases.
#include <gtest/gtest.h>

#include "tessera/nn/attention.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

class AttendToBatch : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(cache_, KvCache::plan(runner_.device(), {.layers = {{2, 8, 8}}, .n_ctx = 64}));
    in_.positions = b_.input("positions", DType::i32, {3});
    in_.sequences = b_.input("sequences", DType::i32, {3});
    heads_ = {b_.input("q", DType::f32, {8, 4, 3}), b_.input("k", DType::f32, {8, 2, 3}),
              b_.input("v", DType::f32, {8, 2, 3})};
    attention_ = {.n_heads = 4, .n_heads_kv = 2, .k_dim = 8, .v_dim = 8, .cache_layer = 0, .params = {.scale = 0.3f}};
  }

  GraphRunner runner_;
  std::unique_ptr<KvCache> cache_;
  GraphBuilder b_;
  nn::BatchInputs in_;
  nn::Heads heads_;
  nn::Attention attention_;
};

TEST_F(AttendToBatch, IsSelfAttention) {
  b_.output(nn::attend(b_, heads_, attention_, in_, *cache_), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b_).finish());
  ASSERT_EQ(graph[5].op, Op::self_attention);
  EXPECT_EQ(std::get<AttentionParams>(graph[5].params).scale, 0.3f);
  EXPECT_EQ(graph[graph.size() - 1].spec.shape(), (Shape{32, 3}));
}

TEST_F(AttendToBatch, IsForLayersWithoutCellsToo) {
  in_.groups.resize(1);
  in_.group_of_layer = {0};
  nn::attend(b_, heads_, attention_, in_, *cache_);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b_).finish());
  EXPECT_EQ(graph[5].op, Op::self_attention);
}

TEST_F(AttendToBatch, RefusesARelativeBias) {
  const Tensor bias{{DType::f32, contiguous_layout(DType::f32, {4, 32}).value()}, "bias"};
  attention_.relative_bias = &bias;
  nn::attend(b_, heads_, attention_, in_, *cache_);
  EXPECT_ERROR(std::move(b_).finish(), "attention without a cache: a relative bias");
}

TEST_F(AttendToBatch, RefusesKeysThatWouldBeInTheCache) {
  heads_.k = heads_.v = Value();
  nn::attend(b_, heads_, attention_, in_, *cache_);
  EXPECT_ERROR(std::move(b_).finish(), "attention without a cache: K and V of another layer");
}

}  // namespace
}  // namespace tessera
