// The rule of add_scaled, and where a builder puts what adapters add.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tessera/graph/builder.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

Value f32(GraphBuilder& b, const Shape& shape) { return b.input("x", DType::f32, shape); }

Result<Shape> scaled(const Shape& y, const Shape& d, const Shape& scales, float factor = 1.0f) {
  GraphBuilder b;
  const Value out = b.add_scaled(f32(b, y), f32(b, d), f32(b, scales), factor);
  const Shape shape = b.spec(out).shape();
  TESSERA_TRY(std::move(b).finish());
  return shape;
}

TEST(AddScaledRule, TakesAScaleForEachRow) {
  ASSERT_OK_AND_ASSIGN(const Shape shape, scaled({8, 3}, {8, 3}, {1, 3}));
  EXPECT_EQ(shape, (Shape{8, 3}));
  EXPECT_OK(scaled({8, 3}, {8}, {1, 3}));
  EXPECT_OK(scaled({8, 0}, {8, 0}, {1, 0}));
  EXPECT_ERROR(scaled({8, 3}, {8, 2}, {1, 3}), "d [8, 2], want y's shape or one of its rows");
  EXPECT_ERROR(scaled({8, 3}, {4}, {1, 3}), "d [4]");
  EXPECT_ERROR(scaled({8, 3}, {8, 3}, {3}), "scales [3], want one a row");
  EXPECT_ERROR(scaled({8, 3}, {8, 3}, {1, 2}), "2 scales for 3 rows");
  EXPECT_ERROR(scaled({8, 3, 2}, {8, 3, 2}, {1, 6}), "want a matrix");
  EXPECT_ERROR(scaled({8, 3}, {8, 3}, {1, 3}, std::numeric_limits<float>::quiet_NaN()), "factor nan");
}

TEST(AddScaledRule, WithRoutesTakesAScaleForEachToken) {
  const auto build = [](int64_t n_pairs, int64_t n_scales) -> Result<Graph> {
    GraphBuilder b;
    const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {2, 3}), 4);
    b.add_scaled(f32(b, {8, n_pairs}), f32(b, {8, n_pairs}), f32(b, {1, n_scales}), 1.0f, routes);
    return std::move(b).finish();
  };
  EXPECT_OK(build(6, 3));
  EXPECT_ERROR(build(6, 4), "4 scales for 6 pairs");
  EXPECT_ERROR(build(8, 4), "routes has 17 entries, want 21");
}

// A model of one product with a weight [8, 6] over all of 5 tokens or the 2 wanted ones.
struct Adapted {
  Tensor weight{.name = "w", .layout = contiguous_layout(DType::f32, {8, 6}).value()};
  Tensor down{.name = "w.a", .layout = contiguous_layout(DType::f32, {8, 2}).value()};
  Tensor up{.name = "w.b", .layout = contiguous_layout(DType::f32, {2, 6}).value()};
  AdapterTerms terms;

  Result<Graph> build(int64_t n_rows) const {
    GraphBuilder b;
    b.adapt({{.terms = &terms,
              .scales = b.input("all", DType::f32, {1, 5}),
              .wanted_scales = b.input("wanted", DType::f32, {1, 2})}});
    b.output(b.mul_mat(b.tensor(weight), f32(b, {8, n_rows})), "y");
    return std::move(b).finish();
  }
};

std::string scales_of(const Graph& graph) {
  const auto found = std::ranges::find(graph.nodes(), Op::add_scaled, &Node::op);
  return found == graph.nodes().end() ? "" : graph[found->sources[2]].name;
}

TEST(AdaptedBuilder, ScalesAreThoseOfAllTokensOrOfTheWantedOnes) {
  Adapted adapted;
  adapted.terms.products[&adapted.weight] = {&adapted.down, &adapted.up, 0.5f};
  ASSERT_OK_AND_ASSIGN(const Graph all, adapted.build(5));
  EXPECT_EQ(scales_of(all), "all");
  ASSERT_OK_AND_ASSIGN(const Graph wanted, adapted.build(2));
  EXPECT_EQ(scales_of(wanted), "wanted");
  EXPECT_ERROR(adapted.build(3), "an adapter's term for 3 rows that are not tokens");
}

TEST(AdaptedBuilder, OtherWeightsAreLeftAlone) {
  Adapted adapted;
  ASSERT_OK_AND_ASSIGN(const Graph graph, adapted.build(5));
  EXPECT_EQ(scales_of(graph), "");
}

}  // namespace
}  // namespace tessera
