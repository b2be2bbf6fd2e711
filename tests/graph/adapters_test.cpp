// Where a builder puts what adapters add.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/graph/builder.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

Value f32(GraphBuilder& b, const Shape& shape) { return b.input("x", DType::f32, shape); }

// A model of one product with a weight [8, 6] over all of 5 tokens or the 2 wanted ones.
struct Adapted {
  Tensor weight{{DType::f32, contiguous_layout(DType::f32, {8, 6}).value()}, "w"};
  Tensor down{{DType::f32, contiguous_layout(DType::f32, {8, 2}).value()}, "w.a"};
  Tensor up{{DType::f32, contiguous_layout(DType::f32, {2, 6}).value()}, "w.b"};
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

TEST(AdaptedBuilder, ATableOfIntegersIsLeftAlone) {
  Adapted adapted;
  const Tensor table{{DType::i32, contiguous_layout(DType::i32, {6, 9}).value()}, "table"};
  adapted.terms.rows[&table] = {&adapted.down, &adapted.up, 0.5f};
  GraphBuilder b;
  b.adapt({{.terms = &adapted.terms, .scales = b.input("all", DType::f32, {1, 5})}});
  b.output(b.get_rows(b.tensor(table), b.input("ids", DType::i32, {5})), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  EXPECT_EQ(scales_of(graph), "");
}

TEST(AdaptedBuilder, OtherWeightsAreLeftAlone) {
  Adapted adapted;
  ASSERT_OK_AND_ASSIGN(const Graph graph, adapted.build(5));
  EXPECT_EQ(scales_of(graph), "");
}

}  // namespace
}  // namespace tessera
