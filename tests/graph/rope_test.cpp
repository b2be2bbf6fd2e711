// The shape rules of positions: rope, its table, temperatures.
#include "tests/graph/rules_support.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

TEST(RopeRules, TableHoldsPairsPerToken) {
  const RopeTableParams good{.n_rot = 8};
  expect_shape([&](auto& b) { return b.rope_table(i32(b, 3), Value(), good); }, {8, 3});
  expect_shape([&](auto& b) { return b.rope_table(i32(b, 3), f32(b, {4}), good); }, {8, 3});
  expect_refused([&](auto& b) { return b.rope_table(f32(b, {3}), Value(), good); }, "positions is f32");
  expect_refused([&](auto& b) { return b.rope_table(i32(b, 3), f32(b, {8}), good); },
                 "frequency factors [8], want [4]");
  for (const int64_t n_rot : {int64_t{0}, int64_t{-2}, int64_t{7}})
    expect_refused([&](auto& b) { return b.rope_table(i32(b, 3), Value(), {.n_rot = n_rot}); }, "n_rot");
  for (const float bad : {0.0f, -1.0f, kNaN, kInf}) {
    expect_refused([&](auto& b) { return b.rope_table(i32(b, 3), Value(), {.n_rot = 8, .freq_base = bad}); },
                   "rope parameter");
    expect_refused([&](auto& b) { return b.rope_table(i32(b, 3), Value(), {.n_rot = 8, .freq_scale = bad}); },
                   "rope parameter");
    expect_refused([&](auto& b) { return b.rope_table(i32(b, 3), Value(), {.n_rot = 8, .magnitude = bad}); },
                   "rope parameter");
  }
  for (const float bad : {-1.0f, kNaN, kInf})
    expect_refused([&](auto& b) { return b.rope_table(i32(b, 3), Value(), {.n_rot = 8, .yarn_ext = bad}); },
                   "YaRN parameter");
}

TEST(RopeRules, RotatesATableOfItsTokens) {
  const auto rope = [](const Shape& x, const Shape& table) {
    return [=](GraphBuilder& b) { return b.rope(f32(b, x), f32(b, table), RopePairs::halves); };
  };
  expect_shape(rope({8, 2, 3}, {8, 3}), {8, 2, 3});
  expect_shape(rope({8, 2, 3}, {4, 3}), {8, 2, 3});
  for (const Shape& table : {Shape{10, 3}, Shape{8, 2}, Shape{8, 3, 2}, Shape{8, 3, 1, 2}, Shape{3, 3}})
    expect_refused(rope({8, 2, 3}, table), "want x [dim, n_heads, n_tokens]");
  expect_refused(rope({8, 2, 3, 2}, {8, 3}), "want x [dim, n_heads, n_tokens]");
}

TEST(TemperatureRule, GivesAFactorPerToken) {
  const auto factors = [](auto& b, float beta, int64_t length) {
    return b.temperature(i32(b, 4), {.beta = beta, .length = length});
  };
  expect_shape([&](auto& b) { return factors(b, 0.1f, 100); }, {1, 1, 4});
  expect_refused([&](auto& b) { return factors(b, kNaN, 100); }, "beta nan");
  expect_refused([&](auto& b) { return factors(b, 0.1f, 0); }, "steps of 0 positions");
  expect_refused([](auto& b) { return b.temperature(i32(b, 4), {.beta = 0.1f, .offset = -1}); },
                 "offset of positions -1");
  expect_refused([](auto& b) { return b.temperature(f32(b, {4}), {.beta = 0.1f}); }, "positions is f32");
}

}  // namespace
}  // namespace tessera
