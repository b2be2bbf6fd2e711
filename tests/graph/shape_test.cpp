// The shape rules of the family shape: views, and elements moved, repeated or summed.
#include <limits>

#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kLargestExtent = std::numeric_limits<int64_t>::max();

TEST(Reshape, SharesTheBytesOfItsOperand) {
  GraphBuilder b;
  const Value x = b.silu(b.input("x", DType::f32, {6, 4}));
  const Value y = b.reshape(b.reshape(x, {3, 2, 4}), {24});
  EXPECT_EQ(b.spec(y).shape(), (Shape{24}));
  const NodeId last = y.id();
  const Graph graph = finished(b);
  EXPECT_EQ(graph.storage(last), 1);
  EXPECT_EQ(graph.storage_offset(last), 0u);
}

TEST(Reshape, RefusesAnotherNumberOfElements) {
  GraphBuilder b;
  b.reshape(b.input("x", DType::f32, {6, 4}), {5, 5});
  EXPECT_ERROR(std::move(b).finish(), "reshape x [6, 4]: [5, 5] has another number of elements");
}

TEST(Reshape, RefusesRowsThatSplitABlock) {
  GraphBuilder b;
  b.reshape(b.input("x", DType::q8_0, {64, 2}), {16, 8});
  EXPECT_ERROR(std::move(b).finish(), "reshape x [64, 2]");
}

TEST(Reshape, RefusesAStridedOperand) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {6, 4});
  b.reshape(b.view(x, {.shape = {3, 4}, .nb = {4, 24, 96, 96}}, 0), {12});
  EXPECT_ERROR(std::move(b).finish(), "not contiguous");
}

TEST(Reshape, RefusesAnOverflowingShape) {
  GraphBuilder b;
  b.reshape(b.input("x", DType::f32, {0, 4}), {kLargestExtent, kLargestExtent, 0});
  EXPECT_ERROR(std::move(b).finish(), "reshape x");
}

struct ViewCase {
  const char* why;
  Layout layout;
  size_t offset;
};

TEST(View, AcceptsWhatLiesInside) {
  for (const ViewCase& c : {ViewCase{"", {.shape = {6, 4}, .nb = {4, 24, 96, 96}}, 0},
                            ViewCase{"", {.shape = {2, 4}, .nb = {4, 24, 96, 96}}, 16},
                            ViewCase{"", {.shape = {6, 100}, .nb = {4, 0, 0, 0}}, 72},
                            ViewCase{"", {.shape = {6, 0}, .nb = {4, 24, 0, 0}}, 96}}) {
    GraphBuilder b;
    const Value v = b.view(b.input("x", DType::f32, {6, 4}), c.layout, c.offset);
    const NodeId id = v.id();
    const Graph graph = finished(b);
    ASSERT_NE(id, kNoNode);
    EXPECT_EQ(graph.storage(id), 0);
    EXPECT_EQ(graph.storage_offset(id), c.offset);
  }
}

TEST(View, RefusesWhatReachesOutside) {
  const size_t top = std::numeric_limits<size_t>::max();
  for (const ViewCase& c :
       {ViewCase{"reaches outside", {.shape = {6, 4}, .nb = {4, 24, 96, 96}}, 4},
        ViewCase{"reaches outside", {.shape = {7, 4}, .nb = {4, 24, 96, 96}}, 0},
        ViewCase{"reaches outside", {.shape = {6, 5}, .nb = {4, 24, 96, 96}}, 0},
        ViewCase{"reaches outside", {.shape = {6, 1}, .nb = {4, 24, 96, 96}}, top - 3},
        ViewCase{"reaches outside", {.shape = {1, 2, 2, 2}, .nb = {4, 4, 4, 96}}, 0},
        ViewCase{"stride out of range", {.shape = {6, 2}, .nb = {4, -24, 96, 96}}, 24},
        ViewCase{"stride out of range", {.shape = {6, 3}, .nb = {4, kLargestExtent / 2 + 1, 96, 96}}, 0},
        ViewCase{"stride out of range", {.shape = {1, 2, 2}, .nb = {4, kLargestExtent - 7, kLargestExtent - 7, 96}}, 0},
        ViewCase{"not possible", {.shape = {-1, 2}, .nb = {4, 24, 96, 96}}, 0},
        ViewCase{"not possible", {.shape = {kLargestExtent, 4}, .nb = {4, 24, 96, 96}}, 0},
        ViewCase{"must be contiguous", {.shape = {3, 4}, .nb = {8, 24, 96, 96}}, 0},
        ViewCase{"stride splits", {.shape = {2, 4}, .nb = {4, 10, 96, 96}}, 0},
        ViewCase{"offset splits", {.shape = {2, 4}, .nb = {4, 24, 96, 96}}, 2}}) {
    GraphBuilder b;
    b.view(b.input("x", DType::f32, {6, 4}), c.layout, c.offset);
    EXPECT_ERROR(std::move(b).finish(), c.why);
  }
}

TEST(View, OffsetsOfNestedViewsAdd) {
  GraphBuilder b;
  const Value x = b.silu(b.input("x", DType::f32, {8, 4}));
  const Value rows = b.view(x, {.shape = {8, 2}, .nb = {4, 32, 64, 64}}, 64);
  const Value part = b.view(rows, {.shape = {4, 2}, .nb = {4, 32, 64, 64}}, 16);
  const NodeId id = part.id();
  const Graph graph = finished(b);
  EXPECT_EQ(graph.storage(id), 1);
  EXPECT_EQ(graph.storage_offset(id), 80u);
}

TEST(ConcatRule, WantsRowsOfOneNumber) {
  expect_shape([](auto& b) { return b.concat(f32(b, {8, 3, 2}), f32(b, {5, 3, 2})); }, {13, 3, 2});
  expect_shape([](auto& b) { return b.concat(every_other_row(b, 8, 3), f32(b, {0, 3})); }, {8, 3});
  expect_refused([](auto& b) { return b.concat(f32(b, {8, 3}), f32(b, {8, 1})); }, "dimension 1: 3 and 1");
  expect_refused([](auto& b) { return b.concat(f32(b, {8}), f16(b, {8})); }, "the second operand is f16");
}

TEST(TransposeRule, ExchangesTheFirstTwoDimensionsOfAnyType) {
  expect_shape([](auto& b) { return b.transpose(f32(b, {8, 3, 2, 5})); }, {3, 8, 2, 5});
  expect_shape([](auto& b) { return b.transpose(f16(b, {8})); }, {1, 8});
  expect_shape([](auto& b) { return b.transpose(every_other_row(b, 8, 3)); }, {3, 8});
  expect_refused([](auto& b) { return b.transpose(Value()); }, "operand 0 is missing");
}

TEST(SumToRule, WantsExtentsThatAreKeptOrOne) {
  expect_shape([](auto& b) { return b.sum_to(f32(b, {8, 3, 2}), {8}); }, {8});
  expect_shape([](auto& b) { return b.sum_to(every_other_row(b, 8, 3), {1, 3}); }, {1, 3});
  expect_shape([](auto& b) { return b.sum_to(f32(b, {8, 0}), {8, 1}); }, {8, 1});
  expect_refused([](auto& b) { return b.sum_to(f32(b, {8, 3}), {8, 2}); }, "dimension 1: 3 and 2 do not match");
  expect_refused([](auto& b) { return b.sum_to(f32(b, {8, 1}), {8, 3}); }, "dimension 1: 1 and 3 do not match");
  expect_refused([](auto& b) { return b.sum_to(f16(b, {8}), {8}); }, "x is f16");
}

TEST(RepeatRule, WantsExtentsThatAreKeptOrWereOne) {
  expect_shape([](auto& b) { return b.repeat(f32(b, {8, 1, 2}), {8, 3, 2}); }, {8, 3, 2});
  expect_shape([](auto& b) { return b.repeat(f32(b, {1}), {8, 3}); }, {8, 3});
  expect_refused([](auto& b) { return b.repeat(f32(b, {8, 3}), {8, 1}); }, "dimension 1: 3 and 1 do not match");
  expect_refused([](auto& b) { return b.repeat(f32(b, {1}), {INT64_MAX, 8}); }, "");
}

TEST(PlaceRule, WantsDistinctPlacesWithin) {
  const auto place = [](auto& b, const Layout& at, size_t offset) {
    return b.place(f32(b, {4, 3}), {.shape = {8, 5}, .at = at, .offset = offset});
  };
  const Layout rows{.shape = {4, 3}, .nb = {4, 32, 96, 96}};
  expect_shape([&](auto& b) { return place(b, rows, 16 + 64); }, {8, 5});
  expect_refused([&](auto& b) { return place(b, rows, 16 + 96); }, "reaches outside [8, 5]");
  expect_refused([&](auto& b) { return place(b, rows, SIZE_MAX - 3); }, "");
  expect_refused([&](auto& b) { return place(b, rows, 2); }, "not distinct rows of floats");
  expect_refused([&](auto& b) { return place(b, {.shape = {4, 3}, .nb = {4, 12, 36, 36}}, 0); }, "not distinct rows");
  expect_refused([&](auto& b) { return place(b, {.shape = {4, 3}, .nb = {4, 0, 0, 0}}, 0); }, "not distinct rows");
  expect_refused([&](auto& b) { return place(b, {.shape = {4, 3}, .nb = {4, -32, 0, 0}}, 64); }, "not distinct rows");
  expect_refused([&](auto& b) { return place(b, {.shape = {4, 3}, .nb = {8, 32, 96, 96}}, 0); }, "not distinct rows");
  expect_refused(
      [&](auto& b) {
        return place(b, {.shape = {4, 3}, .nb = {4, INT64_MAX - 3, 0, 0}}, 0);
      },
      "not distinct rows");
  expect_refused(
      [&](auto& b) {
        return place(b, {.shape = {3, 4}, .nb = {4, 32, 96, 96}}, 0);
      },
      "x is [4, 3], its place [3, 4]");
}

}  // namespace
}  // namespace tessera
