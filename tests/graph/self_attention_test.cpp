// The shape rules of attention among the tokens of a batch.
#include <optional>

#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

struct SelfAttentionShapes {
  Shape q{8, 4, 3}, k{8, 2, 3};
  std::optional<Shape> v = Shape{6, 2, 3};
  int64_t n_positions = 3, n_sequences = 3;
  std::optional<Shape> sinks{};
  Shape dy{6, 4, 3};
  AttentionParams params{};
};

Build self_attention_grad(const SelfAttentionShapes& s) {
  return [=](GraphBuilder& b) {
    return b.self_attention_grad(f32(b, s.q), f32(b, s.k), s.v ? f32(b, *s.v) : Value(), i32(b, s.n_positions),
                                 i32(b, s.n_sequences), s.sinks ? f32(b, *s.sinks) : Value(), f32(b, s.dy), s.params);
  };
}

TEST(SelfAttentionRule, RefusesWhatDoesNotFit) {
  expect_refused(self_attention_grad({.k = {7, 2, 3}}), "K [7, 2, 3] for q [8, 4, 3]");
  expect_refused(self_attention_grad({.k = {8, 2, 4}}), "K [8, 2, 4] for q [8, 4, 3]");
  expect_refused(self_attention_grad({.k = {8, 3, 3}}), "4 query heads for 3 KV heads");
  expect_refused(self_attention_grad({.k = {8, 0, 3}}), "4 query heads for 0 KV heads");
  expect_refused(self_attention_grad({.q = {0, 4, 3}, .k = {0, 2, 3}}), "heads are empty");
  expect_refused(self_attention_grad({.v = Shape{6, 1, 3}}), "V [6, 1, 3] beside K [8, 2, 3]");
  expect_refused(self_attention_grad({.v = Shape{0, 2, 3}}), "heads are empty");
  expect_refused(self_attention_grad({.v = {}}), "no V, and 0 of K's 8 elements as V");
  expect_refused(self_attention_grad({.v = {}, .params = {.latent_v = 9}}), "no V, and 9 of K's 8");
  expect_refused(self_attention_grad({.params = {.latent_v = 6}}), "V beside a V that is part of K");
  expect_refused(self_attention_grad({.n_positions = 2}), "positions has 2 entries, want 3");
  expect_refused(self_attention_grad({.n_sequences = 4}), "sequences has 4 entries, want 3");
  expect_refused(self_attention_grad({.sinks = Shape{3}}), "sinks [3], want one per head, 4");
  expect_refused(self_attention_grad({.dy = {6, 4, 2}}), "dy [6, 4, 2], want [6, 4, 3]");
  expect_refused(self_attention_grad({.params = {.window = -1}}), "window -1");
}

TEST(SelfAttentionRule, WantsAllItsOperands) {
  GraphBuilder b;
  const Value q = b.input("q", DType::f32, {8, 4, 3}), i = b.input("i", DType::i32, {3});
  b.self_attention(q, q, q, i, {}, {}, {});
  EXPECT_ERROR(std::move(b).finish(), "positions or sequences are missing");
  GraphBuilder backward;
  const Value x = backward.input("q", DType::f32, {8, 4, 3}), n = backward.input("i", DType::i32, {3});
  backward.self_attention_grad(x, x, x, n, n, {}, {}, {});
  EXPECT_ERROR(std::move(backward).finish(), "dy is missing");
  const TensorSpec* operands[6] = {};
  EXPECT_ERROR(infer(Op::self_attention, {operands, 6}, AttentionParams{}), "operand 0 is missing");
}

}  // namespace
}  // namespace tessera
