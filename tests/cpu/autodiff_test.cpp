// add_gradients() as a whole: parameters used more than once, recomputation between checkpoints, refused graphs, and no
// unnecessary computation. gradient_test.cpp tests the gradients of the operations.
#include <algorithm>
#include <cmath>

#include "tests/support/gradient_check.h"

namespace tessera {
namespace {

using testing::build_with_gradients;
using testing::bytes_of;
using testing::check_gradients;
using testing::GradientCase;
using testing::GradientLeaves;
using testing::NamedBytes;

using Leaves = std::vector<std::vector<double>>;
using Values = std::vector<Value>;

constexpr size_t kAlignment = 64;

int64_t count(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes(), [op](const Node& node) { return node.op == op; });
}

// Logits of ids, with embeddings [4, 6] that are also the weights of the head.
GradientCase tied_case(bool has_two_leaves) {
  return {.leaves = {{.shape = {4, 6}}, {.shape = {3}, .numbers = {5, 1, 5}}},
          .build =
              [=](GraphBuilder& b, const Values& v) {
                const Value head = has_two_leaves ? b.tensor(*b.graph()[v[0].id()].tensor) : v[0];
                return b.mul_mat(head, b.get_rows(v[0], v[1]));
              },
          .reference =
              [](const Leaves& v) {
                std::vector<double> y;
                for (const double id : v[1])
                  for (size_t i = 0; i < 6; ++i) {
                    y.push_back(0);
                    for (size_t c = 0; c < 4; ++c) y.back() += v[0][i * 4 + c] * v[0][static_cast<size_t>(id) * 4 + c];
                  }
                return y;
              }};
}

TEST(Autodiff, AddsUpWhatATiedParameterGets) { check_gradients(tied_case(false)); }
TEST(Autodiff, ATensorMayBeALeafTwice) { check_gradients(tied_case(true)); }

// y = x (x + x): the same value is an operand twice and has more than one reader.
TEST(Autodiff, AValueMayBeReadMoreThanOnce) {
  check_gradients({.leaves = {{.shape = {20}}},
                   .build = [](GraphBuilder& b, const Values& v) { return b.mul(v[0], b.add(v[0], v[0])); },
                   .reference =
                       [](const Leaves& v) {
                         std::vector<double> y;
                         for (const double x : v[0]) y.push_back(2 * x * x);
                         return y;
                       }});
}

TEST(Autodiff, AParameterThatHasNoPartGetsNothing) {
  const GradientCase c{.leaves = {{.shape = {20}}, {.shape = {20}}},
                       .build = [](GraphBuilder& b, const Values& v) { return b.silu(v[0]); }};
  const GradientLeaves leaves(c, testing::float_settings().front().runner.device());
  const auto graph = build_with_gradients(c, leaves);
  ASSERT_OK(graph);
  EXPECT_TRUE(std::ranges::any_of(graph->nodes(), [](const Node& n) { return n.name == "d_leaf0"; }));
  EXPECT_FALSE(std::ranges::any_of(graph->nodes(), [](const Node& n) { return n.name == "d_leaf1"; }));
}

// Layers x + down silu(up norm(x)), like in a transformer, and their checkpoints.
struct Layers {
  GradientCase c;
  std::shared_ptr<std::vector<Value>> outputs = std::make_shared<std::vector<Value>>();
};
Layers make_layers(int64_t n_layers, int64_t n_tokens) {
  constexpr int64_t kEmbd = 16, kHidden = 48;
  Layers layers;
  layers.c.leaves.push_back({.shape = {kEmbd, n_tokens}, .is_parameter = false});
  for (int64_t i = 0; i < n_layers; ++i)
    for (const Shape& shape : {Shape{kEmbd}, Shape{kEmbd, kHidden}, Shape{kHidden, kEmbd}})
      layers.c.leaves.push_back({.shape = shape, .low = -0.5f, .high = 0.5f});
  layers.c.build = [n_layers, outputs = layers.outputs](GraphBuilder& b, const Values& v) {
    outputs->clear();
    Value x = v[0];
    for (size_t i = 0; i < static_cast<size_t>(n_layers); ++i) {
      const Value hidden = b.mul_mat(v[3 * i + 2], b.rms_norm(x, v[3 * i + 1], 1e-5f));
      x = b.add(x, b.mul_mat(v[3 * i + 3], b.silu(hidden)));
      outputs->push_back(x);
    }
    return b.rms_norm(x, {}, 1e-5f);
  };
  return layers;
}

TEST(Autodiff, RecomputationGivesTheSameBits) {
  const Layers layers = make_layers(5, 33);
  Rng rng(8);
  const std::vector<float> dy = testing::random_values(rng, 16 * 33);
  for (const testing::Setting& setting : testing::float_settings()) {
    const GradientLeaves leaves(layers.c, setting.runner.device());
    NamedBytes inputs = leaves.inputs();
    inputs["dy"] = bytes_of(dy);
    auto plain = build_with_gradients(layers.c, leaves);
    auto thrifty = build_with_gradients(layers.c, leaves, [&](Value) { return *layers.outputs; });
    ASSERT_OK(plain);
    ASSERT_OK(thrifty);
    EXPECT_GT(thrifty->size(), plain->size());
    const auto expected = setting.runner.run(std::move(*plain), inputs);
    const auto got = setting.runner.run(std::move(*thrifty), inputs);
    ASSERT_OK(expected);
    ASSERT_OK(got);
    EXPECT_EQ(expected->size(), 16u);  // y, and three parameters a layer
    EXPECT_EQ(*got, *expected) << setting.isa << ", " << setting.n_threads << " threads";
  }
}

TEST(Autodiff, RecomputationTakesTheMemoryOfOneLayerAndTheCheckpoints) {
  constexpr int64_t kLayers = 8, kTokens = 512;
  const Layers layers = make_layers(kLayers, kTokens);
  const GradientLeaves leaves(layers.c, testing::float_settings().front().runner.device());
  const auto bytes = [&](bool recomputes) {
    const auto graph = build_with_gradients(layers.c, leaves,
                                            [&](Value) { return recomputes ? *layers.outputs : std::vector<Value>(); });
    return graph ? plan_memory(*graph, kAlignment).value().bytes : 0;
  };
  const size_t plain = bytes(false), thrifty = bytes(true);
  // A layer computes 16 + 48 + 48 + 16 + 16 floats per token. All layers but one keep only the last 16.
  EXPECT_GT(plain, size_t{kLayers * kTokens * 128 * 4});
  EXPECT_LT(thrifty, plain / 2);
}

TEST(Autodiff, AnOperationWithoutGradientFails) {
  const GradientCase c{.leaves = {{.shape = {20, 3}}},
                       .build = [](GraphBuilder& b, const Values& v) { return b.silu(b.sum_squares(b.silu(v[0]))); }};
  const GradientLeaves leaves(c, testing::float_settings().front().runner.device());
  EXPECT_ERROR(build_with_gradients(c, leaves), "gradient of sum_squares silu f32 [20, 3]: there is none");
}

TEST(Autodiff, AnOperationWithoutGradientMayBeWhereNoParameterIs) {
  check_gradients(
      {.leaves = {{.shape = {20}}, {.shape = {20, 3}, .is_parameter = false}},
       .build = [](GraphBuilder& b, const Values& v) { return b.mul(b.add(b.sum_squares(v[1]), v[0]), v[0]); },
       .reference =
           [](const Leaves& v) {
             std::vector<double> y(20);
             for (size_t i = 0; i < 60; ++i) y[i % 20] += v[1][i] * v[1][i];
             for (size_t i = 0; i < 20; ++i) y[i] = (y[i] + v[0][i]) * v[0][i];
             return y;
           }});
}

TEST(Autodiff, AGradientOfAnotherShapeFails) {
  const testing::OwnedTensor w(testing::float_settings().front().runner.device().buffer_type(), "w", DType::f32, {8},
                               {});
  const Tensor* const parameters[] = {&w.tensor};
  GraphBuilder b;
  const Value y = b.silu(b.tensor(w.tensor));
  add_gradients(b, y, b.input("dy", DType::f32, {4}), parameters, [](const Tensor&, Value) {});
  EXPECT_ERROR(std::move(b).finish(), "the gradient of [8] is [4]");
}

// Products with frozen weights and of inputs: neither is differentiated.
TEST(Autodiff, ComputesNothingForWhatIsFrozen) {
  const GradientCase c{
      .leaves = {{.shape = {32, 8}, .dtype = DType::q8_0},
                 {.shape = {32, 8}},
                 {.shape = {32, 3}, .is_parameter = false}},
      .build = [](GraphBuilder& b, const Values& v) { return b.add(b.mul_mat(v[0], v[2]), b.mul_mat(v[1], v[2])); }};
  const GradientLeaves leaves(c, testing::float_settings().front().runner.device());
  const auto graph = build_with_gradients(c, leaves);
  ASSERT_OK(graph);
  EXPECT_EQ(count(*graph, Op::mul_mat), 3);  // the two products, and the gradient of one of four operands
}

}  // namespace
}  // namespace tessera
