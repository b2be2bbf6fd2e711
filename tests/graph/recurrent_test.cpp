// The shape rules of recurrent layers: accepted operands with their results, and each refusal.
#include <limits>

#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kHugeExtent = int64_t{1} << 40;

Build conv(const Shape& x, const Shape& w, const Shape& state, int64_t n_segments, const Shape& bias = {6}) {
  return [=](GraphBuilder& b) {
    return b.causal_conv(f32(b, x), f32(b, w), f32(b, bias), f32(b, state), i32(b, {n_segments}));
  };
}

TEST(CausalConvRule, WantsAStateOfTheLastInputs) {
  expect_shape(conv({6, 3}, {4, 6}, {18, 2}, 7), {6, 3});
  expect_shape(conv({6, 3}, {4, 6}, {18, 2}, 3), {6, 3});
  expect_shape(
      [](auto& b) {
        return b.causal_conv(f32(b, {6, 0}), f32(b, {4, 6}), {}, f32(b, {18, 1}), i32(b, {0}));
      },
      {6, 0});
  expect_refused(conv({6, 3}, {1, 6}, {0, 2}, 7), "convolution of 1 tokens, want 2 to 32");
  expect_refused(conv({6, 3}, {33, 6}, {192, 2}, 7), "convolution of 33 tokens");
  expect_refused(conv({6, 3}, {4, 5}, {18, 2}, 7), "weight is [4, 5], want [4, 6]");
  expect_refused(conv({6, 3}, {4, 6}, {17, 2}, 7), "state has 17 elements, want 18");
  expect_refused(conv({6, 3}, {4, 6}, {18, 2, 2}, 7), "want a contiguous f32 matrix");
  expect_refused(conv({6, 3}, {4, 6}, {18, 2}, 2), "segments of 2 entries are not those of 3 tokens");
  expect_refused(conv({6, 3}, {4, 6}, {18, 2}, 8), "segments of 8 entries");
  expect_refused(conv({6, 3}, {4, 6}, {18, 2}, 7, {5}), "bias is [5], want [6]");
  expect_refused(conv({6, 3, 2}, {4, 6}, {18, 2}, 7), "x has more than two dimensions");
  expect_refused(
      [](auto& b) {
        return b.causal_conv(f32(b, {6, 3}), f32(b, {4, 6}), {}, i32(b, {18, 1}), i32(b, {7}));
      },
      "state i32");
  expect_refused(
      [](auto& b) {
        return b.causal_conv(f32(b, {6, 3}), f32(b, {4, 6}), {}, f32(b, {18, 1}), f32(b, {7}));
      },
      "segments is f32, want i32");
}

TEST(TokenShiftRule, WantsAStateOfOneInput) {
  const auto shift = [](const Shape& x, const Shape& state) {
    return [=](GraphBuilder& b) { return b.token_shift(f32(b, x), f32(b, state), i32(b, {7})); };
  };
  expect_shape(shift({6, 3}, {6, 2}), {6, 3});
  expect_refused(shift({6, 3}, {5, 2}), "state has 5 elements, want 6");
  expect_refused(shift({6, 3, 2}, {6, 2}), "more than two dimensions");
}

struct Scan {
  Shape x{2, 6, 3}, dt{6, 3}, a{5, 6}, b{5, 2, 3}, c{5, 2, 3}, d{6}, state{60, 2};
};

Build scan(const std::function<void(Scan&)>& change) {
  Scan s;
  change(s);
  return [s](GraphBuilder& b) {
    return b.selective_scan(f32(b, s.x), f32(b, s.dt), f32(b, s.a), f32(b, s.b), f32(b, s.c), f32(b, s.d),
                            f32(b, s.state), i32(b, {7}));
  };
}

TEST(SelectiveScanRule, WantsWhatAHeadTakes) {
  expect_shape(scan([](Scan&) {}), {2, 6, 3});
  expect_shape(scan([](Scan& s) { s.a = {1, 6}; }), {2, 6, 3});
  expect_refused(scan([](Scan& s) { s.dt = {5, 3}; }), "dt is [5, 3], want [6, 3]");
  expect_refused(scan([](Scan& s) { s.a = {4, 6}; }), "a is [4, 6], want [5, 6]");
  expect_refused(scan([](Scan& s) { s.b = {5, 4, 3}; }), "6 heads for 4 groups, want a multiple");
  expect_refused(scan([](Scan& s) { s.b = {5, 0, 3}; }), "6 heads for 0 groups");
  expect_refused(scan([](Scan& s) { s.c = {5, 3, 3}; }), "c is [5, 3, 3], want [5, 2, 3]");
  expect_refused(scan([](Scan& s) { s.d = {5}; }), "d is [5], want [6]");
  expect_refused(scan([](Scan& s) { s.state = {61, 2}; }), "state has 61 elements, want 60");
  expect_refused(scan([](Scan& s) { s.x = {0, 6, 3}; }), "heads are empty");
  expect_refused(scan([](Scan& s) { s.x = {2, 6, 3, 2}; }), "x has more than three dimensions");
  expect_refused(scan([](Scan& s) {
                   s.x = {kHugeExtent, 2, 0};
                   s.dt = {2, 0};
                   s.a = {kHugeExtent, 2};
                   s.b = s.c = {kHugeExtent, 1, 0};
                   s.d = {2};
                 }),
                 "overflow");
}

TEST(DeltaNetRule, WantsValueHeadsOfWholeKeyHeads) {
  const auto delta = [](const Shape& k, const Shape& v, const Shape& decay, const Shape& state, float scale = 1.0f) {
    return [=](GraphBuilder& b) {
      return b.delta_net(f32(b, {4, 2, 3}), f32(b, k), f32(b, v), f32(b, decay), f32(b, {6, 3}), f32(b, state),
                         i32(b, {7}), {KeyHeads::tiled, scale});
    };
  };
  expect_shape(delta({4, 2, 3}, {5, 6, 3}, {6, 3}, {120, 2}), {5, 6, 3});
  expect_refused(delta({4, 2, 2}, {5, 6, 3}, {6, 3}, {120, 2}), "k is [4, 2, 2], want [4, 2, 3]");
  expect_refused(delta({4, 2, 3}, {5, 5, 3}, {6, 3}, {120, 2}), "5 value heads for 2 key heads");
  expect_refused(delta({4, 2, 3}, {5, 6, 2}, {6, 3}, {120, 2}), "v is [5, 6, 2], want [5, 6, 3]");
  expect_refused(delta({4, 2, 3}, {5, 6, 3}, {5, 3}, {120, 2}), "decay is [5, 3], want [6, 3]");
  expect_refused(delta({4, 2, 3}, {5, 6, 3}, {6, 3}, {119, 2}), "state has 119 elements");
  expect_refused(delta({4, 2, 3}, {0, 6, 3}, {6, 3}, {120, 2}), "heads are empty");
  const float inf = std::numeric_limits<float>::infinity();
  expect_refused(delta({4, 2, 3}, {5, 6, 3}, {6, 3}, {120, 2}, inf), "scale inf is not finite");
}

TEST(Rwkv7Rule, WantsEqualShapes) {
  const auto rwkv = [](const Shape& r, const Shape& v, const Shape& state) {
    return [=](GraphBuilder& b) {
      const Value x = f32(b, r);
      return b.rwkv7(x, x, x, f32(b, v), x, x, f32(b, state), i32(b, {7}));
    };
  };
  expect_shape(rwkv({4, 2, 3}, {4, 2, 3}, {32, 1}), {4, 2, 3});
  expect_refused(rwkv({4, 2, 3}, {5, 2, 3}, {32, 1}), "v is [5, 2, 3], want [4, 2, 3]");
  expect_refused(rwkv({4, 2, 3}, {4, 2, 3}, {31, 1}), "state has 31 elements, want 32");
  expect_refused(rwkv({kHugeExtent, 2, 0}, {kHugeExtent, 2, 0}, {32, 1}), "overflow");
}

TEST(RecurrentGradientRules, GiveOneVectorOfAllGradients) {
  const auto conv_grad = [](const Shape& x, const Shape& dy) {
    return [=](GraphBuilder& b) {
      return b.causal_conv_grad(f32(b, x), f32(b, {4, 6}), f32(b, {18, 2}), i32(b, {7}), f32(b, dy));
    };
  };
  expect_shape(conv_grad({6, 3}, {6, 3}), {6 * 3 + 4 * 6});
  expect_refused(conv_grad({6, 3}, {6, 2}), "dy is [6, 2], want [6, 3]");
  expect_refused(conv_grad({5, 3}, {5, 3}), "weight is [4, 6], want [4, 5]");
  expect_shape([](auto& b) { return b.token_shift_grad(f32(b, {6, 3}), f32(b, {6, 2}), i32(b, {7})); }, {6, 3});

  const auto scan_grad = [](const Shape& dy) {
    return [=](GraphBuilder& b) {
      return b.selective_scan_grad(f32(b, {2, 6, 3}), f32(b, {6, 3}), f32(b, {5, 6}), f32(b, {5, 2, 3}),
                                   f32(b, {5, 2, 3}), f32(b, {6}), f32(b, {60, 2}), i32(b, {7}), f32(b, dy));
    };
  };
  expect_shape(scan_grad({2, 6, 3}), {2 * 6 * 3 + 6 * 3 + 5 * 6 + 2 * (5 * 2 * 3) + 6});
  expect_refused(scan_grad({2, 6, 2}), "dy is [2, 6, 2], want [2, 6, 3]");

  const auto delta_grad = [](const Shape& dy) {
    return [=](GraphBuilder& b) {
      const Value q = f32(b, {4, 2, 3}), beta = f32(b, {6, 3});
      return b.delta_net_grad(q, q, f32(b, {5, 6, 3}), beta, beta, f32(b, {120, 2}), i32(b, {7}), f32(b, dy), {});
    };
  };
  expect_shape(delta_grad({5, 6, 3}), {2 * (4 * 2 * 3) + 5 * 6 * 3 + 2 * (6 * 3)});
  expect_refused(delta_grad({4, 6, 3}), "dy is [4, 6, 3], want [5, 6, 3]");

  const auto rwkv_grad = [](const Shape& dy) {
    return [=](GraphBuilder& b) {
      const Value x = f32(b, {4, 2, 3});
      return b.rwkv7_grad(x, x, x, x, x, x, f32(b, {32, 1}), i32(b, {7}), f32(b, dy));
    };
  };
  expect_shape(rwkv_grad({4, 2, 3}), {6 * (4 * 2 * 3)});
  expect_refused(rwkv_grad({4, 1, 3}), "dy is [4, 1, 3], want [4, 2, 3]");
}

TEST(RecurrentGradientRules, RefuseAMissingOperand) {
  expect_refused(
      [](auto& b) {
        return b.causal_conv_grad(f32(b, {6, 3}), f32(b, {4, 6}), {}, {}, {});
      },
      "operand 2 is missing");
  for (const Op op : {Op::causal_conv_grad, Op::selective_scan_grad, Op::delta_net_grad, Op::rwkv7_grad})
    EXPECT_ERROR(infer(op, {}, NoParams{}), "operands");
}

TEST(RecurrentCost, CountsOneSlotOfTheState) {
  GraphBuilder b;
  const Value y = scan([](Scan& s) { s.state = {60, 1000}; })(b);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  const Cost c = cost(graph, y.id());
  EXPECT_EQ(c.macs, 3 * 5 * 2 * 6 * 3);
  const int64_t floats = 2 * (2 * 6 * 3) + 6 * 3 + 5 * 6 + 2 * (5 * 2 * 3) + 6 + 2 * 60;
  EXPECT_EQ(c.bytes, 4 * (floats + 7));
}

}  // namespace
}  // namespace tessera
