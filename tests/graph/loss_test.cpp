// The shape rules of losses.
#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(CrossEntropyRules, WantATargetPerRow) {
  expect_shape([](auto& b) { return b.cross_entropy(f32(b, {50, 3}), i32(b, 3)); }, {1, 3});
  expect_refused([](auto& b) { return b.cross_entropy(f32(b, {50, 3}), i32(b, 2)); }, "targets has 2 entries, want 3");
  expect_refused([](auto& b) { return b.cross_entropy(f32(b, {50, 3}), f32(b, {3})); }, "targets is f32");
  expect_refused([](auto& b) { return b.cross_entropy(f32(b, {0, 3}), i32(b, 3)); }, "logits [0, 3]");
  expect_refused([](auto& b) { return b.cross_entropy(f32(b, {50, 3, 2}), i32(b, 3)); }, "logits [50, 3, 2]");
  const auto gradient = [](auto& b, const Shape& d_loss) {
    return b.cross_entropy_grad(f32(b, {50, 3}), i32(b, 3), f32(b, d_loss));
  };
  expect_shape([&](auto& b) { return gradient(b, {1, 3}); }, {50, 3});
  expect_refused([&](auto& b) { return gradient(b, {3}); }, "d_loss [3], want one a token");
}

}  // namespace
}  // namespace tessera
