// The shape rule of every operation: what it accepts and gives, and each thing it refuses.
#include <cmath>
#include <optional>

#include "tests/graph/rules_support.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

TEST(BinaryRules, AddRepeatsAlongAllButTheInnermostDimension) {
  expect_shape([](auto& b) { return b.add(f32(b, {8, 3}), f32(b, {8, 3})); }, {8, 3});
  expect_shape([](auto& b) { return b.add(f32(b, {8, 3, 2}), f32(b, {8, 1, 2})); }, {8, 3, 2});
  expect_shape([](auto& b) { return b.add(f32(b, {8, 0}), f32(b, {8})); }, {8, 0});
  expect_shape([](auto& b) { return b.add(every_other_row(b, 8, 3), f32(b, {8})); }, {8, 3});
  expect_refused([](auto& b) { return b.add(f32(b, {8, 3}), f32(b, {1})); }, "dimension 0: 8 and 1");
  expect_refused([](auto& b) { return b.add(f32(b, {8, 1}), f32(b, {8, 3})); }, "dimension 1: 1 and 3");
  expect_refused([](auto& b) { return b.add(f16(b, {8}), f32(b, {8})); }, "x is f16, want f32");
  expect_refused([](auto& b) { return b.add(f32(b, {8}), f16(b, {8})); }, "the second operand is f16");
}

TEST(BinaryRules, MulRepeatsAlongAnyDimension) {
  expect_shape([](auto& b) { return b.mul(f32(b, {8, 3}), f32(b, {1, 3})); }, {8, 3});
  expect_shape([](auto& b) { return b.mul(f32(b, {8, 3}), f32(b, {1})); }, {8, 3});
  expect_refused([](auto& b) { return b.mul(f32(b, {8, 3}), f32(b, {2, 3})); }, "dimension 0: 8 and 2");
  expect_refused([](auto& b) { return b.mul(f32(b, {8, 3}), Value()); }, "operand 1 is missing");
}

TEST(UnaryRules, KeepTheShape) {
  expect_shape([](auto& b) { return b.silu(f32(b, {8, 3, 2, 2})); }, {8, 3, 2, 2});
  expect_shape([](auto& b) { return b.scale(every_other_row(b, 8, 3), 2.0f); }, {8, 3});
  expect_shape([](auto& b) { return b.soft_max(f32(b, {8, 0})); }, {8, 0});
  expect_refused([](auto& b) { return b.silu(f16(b, {8})); }, "x is f16");
  expect_refused([](auto& b) { return b.scale(i32(b, 8), 2.0f); }, "x is i32");
  expect_refused([](auto& b) { return b.soft_max(f16(b, {8})); }, "x is f16");
}

TEST(UnaryRules, OfSingleArchitectures) {
  expect_shape([](auto& b) { return b.gelu(every_other_row(b, 8, 3)); }, {8, 3});
  expect_shape([](auto& b) { return b.relu_squared(f32(b, {8, 0})); }, {8, 0});
  expect_shape([](auto& b) { return b.sqrt(f32(b, {8, 3})); }, {8, 3});
  expect_shape([](auto& b) { return b.soft_cap(f32(b, {8, 3}), 30.0f); }, {8, 3});
  expect_shape([](auto& b) { return b.clamp(f32(b, {8, 3}), -kInf, 1.0f); }, {8, 3});
  expect_refused([](auto& b) { return b.gelu(f16(b, {8})); }, "x is f16");
  expect_refused([](auto& b) { return b.sqrt(i32(b, 8)); }, "x is i32");
  for (const float cap : {0.0f, -1.0f, kNaN, kInf})
    expect_refused([&](auto& b) { return b.soft_cap(f32(b, {8}), cap); }, "want a finite value > 0");
  expect_refused([](auto& b) { return b.clamp(f32(b, {8}), 1.0f, 0.5f); }, "clamp to 1 to 0.5");
  expect_refused([](auto& b) { return b.clamp(f32(b, {8}), kNaN, 0.5f); }, "clamp to nan");
}

TEST(BinaryRules, DivRepeatsAlongAllButTheInnermostDimension) {
  expect_shape([](auto& b) { return b.div(f32(b, {8, 3}), f32(b, {8})); }, {8, 3});
  expect_refused([](auto& b) { return b.div(f32(b, {8, 3}), f32(b, {1})); }, "dimension 0: 8 and 1");
}

TEST(GateRules, WantTwoEqualShapes) {
  expect_shape([](auto& b) { return b.geglu(f32(b, {8, 3}), every_other_row(b, 8, 3)); }, {8, 3});
  expect_shape([](auto& b) { return b.swiglu_oai(f32(b, {8, 3}), f32(b, {8, 3})); }, {8, 3});
  expect_refused([](auto& b) { return b.geglu(f32(b, {8, 3}), f32(b, {8})); }, "differ in shape");
  expect_refused([](auto& b) { return b.swiglu_oai(f32(b, {8, 3}), f32(b, {8})); }, "differ in shape");
}

TEST(LayerNormRule, WantsAWeightAndABiasOfItsRows) {
  const auto norm = [](auto& b, const Shape& x, Value weight, Value bias, float eps) {
    return b.layer_norm(f32(b, x), weight, bias, eps);
  };
  expect_shape([&](auto& b) { return norm(b, {8, 3}, f32(b, {8}), f32(b, {8}), 1e-5f); }, {8, 3});
  expect_shape([&](auto& b) { return norm(b, {8, 3}, Value(), f32(b, {8}), 0.0f); }, {8, 3});
  expect_shape([&](auto& b) { return norm(b, {8, 3}, Value(), Value(), 0.0f); }, {8, 3});
  expect_refused([&](auto& b) { return norm(b, {8, 3}, f32(b, {7}), Value(), 0.0f); }, "weight [7], want [8]");
  expect_refused([&](auto& b) { return norm(b, {8, 3}, f32(b, {8}), f32(b, {8, 3}), 0.0f); }, "bias [8, 3], want [8]");
  expect_refused([&](auto& b) { return norm(b, {8, 3}, f16(b, {8}), Value(), 0.0f); }, "weight is f16");
  expect_refused([&](auto& b) { return norm(b, {0, 3}, Value(), Value(), 0.0f); }, "rows are empty");
  for (const float eps : {-1e-6f, kNaN, kInf})
    expect_refused([&](auto& b) { return norm(b, {8}, Value(), Value(), eps); }, "eps");
}

TEST(ConcatRule, WantsRowsOfOneNumber) {
  expect_shape([](auto& b) { return b.concat(f32(b, {8, 3, 2}), f32(b, {5, 3, 2})); }, {13, 3, 2});
  expect_shape([](auto& b) { return b.concat(every_other_row(b, 8, 3), f32(b, {0, 3})); }, {8, 3});
  expect_refused([](auto& b) { return b.concat(f32(b, {8, 3}), f32(b, {8, 1})); }, "dimension 1: 3 and 1");
  expect_refused([](auto& b) { return b.concat(f32(b, {8}), f16(b, {8})); }, "the second operand is f16");
}

TEST(TemperatureRule, GivesAFactorPerToken) {
  const auto factors = [](auto& b, float beta, int64_t length) {
    return b.temperature(i32(b, 4), {.beta = beta, .length = length});
  };
  expect_shape([&](auto& b) { return factors(b, 0.1f, 100); }, {1, 1, 4});
  expect_refused([&](auto& b) { return factors(b, kNaN, 100); }, "beta nan");
  expect_refused([&](auto& b) { return factors(b, 0.1f, 0); }, "steps of 0 positions");
  expect_refused([](auto& b) { return b.temperature(f32(b, {4}), {.beta = 0.1f}); }, "positions is f32");
}

TEST(TopGroupsRule, WantsGroupsOfOneSize) {
  const auto groups = [](auto& b, int64_t n, int64_t n_used) {
    return b.top_groups(f32(b, {12, 5}), {.n_groups = n, .n_used = n_used});
  };
  expect_shape([&](auto& b) { return groups(b, 4, 4); }, {12, 5});
  expect_shape([&](auto& b) { return groups(b, 12, 1); }, {12, 5});
  expect_refused([&](auto& b) { return groups(b, 5, 2); }, "2 of 5 groups of 12 experts");
  expect_refused([&](auto& b) { return groups(b, 4, 5); }, "5 of 4 groups");
  expect_refused([&](auto& b) { return groups(b, 4, 0); }, "0 of 4 groups");
  expect_refused([&](auto& b) { return groups(b, 0, 0); }, "0 of 0 groups");
  expect_refused([](auto& b) { return b.top_groups(f32(b, {1024}), {.n_groups = 1024, .n_used = 1}); },
                 "of 1024 groups");
}

TEST(MulMatHeadsRule, WantsAMatrixPerHead) {
  expect_shape([](auto& b) { return b.mul_mat_heads(f16(b, {8, 5, 3}), f32(b, {8, 3, 2})); }, {5, 3, 2});
  expect_shape([](auto& b) { return b.mul_mat_heads(f16(b, {8, 5, 3}), f32(b, {8, 3, 0})); }, {5, 3, 0});
  expect_refused(
      [](auto& b) {
        return b.mul_mat_heads(f16(b, {8, 5, 3}), f32(b, {8, 2, 2}));
      },
      "3 heads, x has 8 and 2");
  expect_refused([](auto& b) { return b.mul_mat_heads(f16(b, {8, 5, 3}), f32(b, {9, 3, 2})); }, "8 columns");
  expect_refused([](auto& b) { return b.mul_mat_heads(f16(b, {8, 5, 3}), f16(b, {8, 3, 2})); }, "x is f16");
  expect_refused([](auto& b) { return b.mul_mat_heads(f16(b, {0, 5, 3}), f32(b, {0, 3, 2})); }, "rows are empty");
}

TEST(SwigluRule, WantsTwoEqualShapes) {
  expect_shape([](auto& b) { return b.swiglu(f32(b, {8, 3}), f32(b, {8, 3})); }, {8, 3});
  expect_refused([](auto& b) { return b.swiglu(f32(b, {8, 3}), f32(b, {8})); }, "differ in shape");
}

TEST(RmsNormRule, WantsAWeightOfItsRows) {
  expect_shape([](auto& b) { return b.rms_norm(f32(b, {8, 3}), f32(b, {8}), 1e-5f); }, {8, 3});
  expect_shape([](auto& b) { return b.rms_norm(f32(b, {8, 3}), Value(), 0.0f); }, {8, 3});
  expect_refused([](auto& b) { return b.rms_norm(f32(b, {8, 3}), f32(b, {7}), 1e-5f); }, "weight [7], want [8]");
  expect_refused([](auto& b) { return b.rms_norm(f32(b, {8, 3}), f32(b, {8, 3}), 1e-5f); }, "weight [8, 3]");
  expect_refused([](auto& b) { return b.rms_norm(f32(b, {8, 3}), f16(b, {8}), 1e-5f); }, "weight is f16");
  expect_refused([](auto& b) { return b.rms_norm(f32(b, {0, 3}), Value(), 1e-5f); }, "rows are empty");
  for (const float eps : {-1e-6f, kNaN, kInf})
    expect_refused([&](auto& b) { return b.rms_norm(f32(b, {8}), Value(), eps); }, "eps");
}

TEST(MulMatRule, MapsColumnsToRows) {
  expect_shape([](auto& b) { return b.mul_mat(f16(b, {8, 5}), f32(b, {8, 3})); }, {5, 3});
  expect_shape([](auto& b) { return b.mul_mat(f16(b, {8, 5}), f32(b, {8, 0})); }, {5, 0});
  expect_shape([](auto& b) { return b.mul_mat(f16(b, {8, 5}), every_other_row(b, 8, 3)); }, {5, 3});
  expect_refused([](auto& b) { return b.mul_mat(f16(b, {8, 5}), f32(b, {9, 3})); }, "weights have 8 columns");
  expect_refused([](auto& b) { return b.mul_mat(f32(b, {8, 5}), f16(b, {8, 3})); }, "x is f16");
  expect_refused([](auto& b) { return b.mul_mat(f16(b, {8, 5, 2}), f32(b, {8, 3})); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.mul_mat(f16(b, {8, 5}), f32(b, {8, 3, 1, 2})); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.mul_mat(f16(b, {0, 5}), f32(b, {0, 3})); }, "rows are empty");
  expect_refused(
      [](auto& b) {
        return b.mul_mat(every_other_row(b, 8, 3), f32(b, {8, 3}));
      },
      "weights are not contiguous");
}

TEST(SumSquaresRule, KeepsTheRowsLength) {
  expect_shape([](auto& b) { return b.sum_squares(f32(b, {8, 3})); }, {8});
  expect_shape([](auto& b) { return b.sum_squares(every_other_row(b, 8, 3)); }, {8});
  expect_shape([](auto& b) { return b.sum_squares(f32(b, {8, 0})); }, {8});
  expect_shape([](auto& b) { return b.sum_squares(f32(b, {0, 3})); }, {0});
  expect_refused([](auto& b) { return b.sum_squares(f16(b, {8, 3})); }, "x is f16, want f32");
  expect_refused([](auto& b) { return b.sum_squares(Value()); }, "operand 0 is missing");
}

TEST(GetRowsRule, GivesFloatRows) {
  expect_shape([](auto& b) { return b.get_rows(b.input("t", DType::q8_0, {32, 9}), i32(b, 4)); }, {32, 4});
  expect_shape([](auto& b) { return b.get_rows(f32(b, {8, 9}), i32(b, 0)); }, {8, 0});
  expect_shape([](auto& b) { return b.get_rows(every_other_row(b, 8, 9), i32(b, 2)); }, {8, 2});
  expect_refused([](auto& b) { return b.get_rows(f32(b, {8, 9}), f32(b, {4})); }, "ids is f32, want i32");
  expect_refused([](auto& b) { return b.get_rows(f32(b, {8, 9, 2}), i32(b, 4)); }, "more than two dimensions");
  expect_refused([](auto& b) { return b.get_rows(f32(b, {8, 9}), b.input("i", DType::i32, {2, 2})); }, "vector");
}

TEST(CastRule, KeepsTheShape) {
  expect_shape([](auto& b) { return b.cast(f32(b, {32, 3}), DType::q8_0); }, {32, 3}, DType::q8_0);
  expect_shape([](auto& b) { return b.cast(every_other_row(b, 8, 3), DType::f16); }, {8, 3}, DType::f16);
}

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

TEST(KvRules, StoreTakesFloatsOrRowsOfTheCache) {
  const auto store = [](const Shape& cache, DType dtype, const Shape& x, int64_t n_cells) {
    return [=](GraphBuilder& b) {
      return b.kv_store(b.input("c", DType::f16, cache), b.input("x", dtype, x), i32(b, n_cells), KvSide::v);
    };
  };
  const Shape cache{8, 64, 2, 3};
  expect_shape(store(cache, DType::f32, {8, 2, 5}, 5), cache, DType::f16);
  expect_shape(store(cache, DType::f16, {8, 2, 5}, 5), cache, DType::f16);
  expect_shape(store(cache, DType::f32, {8, 2, 0}, 0), cache, DType::f16);
  expect_refused(store(cache, DType::bf16, {8, 2, 5}, 5), "rows are bf16, want f32 or f16");
  expect_refused(store(cache, DType::f32, {8, 3, 5}, 5), "do not fit the cache");
  expect_refused(store(cache, DType::f32, {4, 2, 5}, 5), "do not fit the cache");
  expect_refused(store(cache, DType::f32, {8, 2, 5, 2}, 5), "do not fit the cache");
  expect_refused(store(cache, DType::f32, {8, 2, 5}, 4), "cells has 4 entries, want 5");
  expect_refused(store({8, 32, 2, 3}, DType::f32, {8, 2, 5}, 5), "want [dim, 64, n_heads_kv, n_blocks]");
}

TEST(KvRules, LoadGivesRowsOfTheCache) {
  const auto load = [](const Shape& cache, int64_t n) {
    return [=](GraphBuilder& b) { return b.kv_load(b.input("c", DType::q8_0, cache), i32(b, n), KvSide::k); };
  };
  expect_shape(load({32, 64, 2, 3}, 5), {32, 2, 5}, DType::q8_0);
  expect_refused(load({32, 63, 2, 3}, 5), "want [dim, 64, n_heads_kv, n_blocks]");
}

struct AttentionShapes {
  Shape q{8, 4, 3};
  Shape k{8, 64, 2, 5};
  Shape v{6, 64, 2, 5};
  int64_t n_positions = 3, n_slots = 3;
  Shape blocks{4, 2}, valid{4, 2};
  DType blocks_type = DType::i32, valid_type = DType::i64;
  AttentionParams params{};
  bool has_v = true;
  std::optional<Shape> sinks{};
};

Build attention(const AttentionShapes& s) {
  return [=](GraphBuilder& b) {
    return b.attention(f32(b, s.q), f16(b, s.k), s.has_v ? f16(b, s.v) : Value(), i32(b, s.n_positions),
                       i32(b, s.n_slots), b.input("blocks", s.blocks_type, s.blocks),
                       b.input("valid", s.valid_type, s.valid), s.sinks ? f32(b, *s.sinks) : Value(), s.params);
  };
}

TEST(AttentionRule, GivesValuesPerHeadAndToken) {
  expect_shape(attention({}), {6, 4, 3});
  expect_shape(attention({.q = {8, 4, 0}, .n_positions = 0, .n_slots = 0}), {6, 4, 0});
}

TEST(AttentionRule, ValuesMayBePartOfTheKeys) {
  expect_shape(attention({.params = {.latent_v = 5}, .has_v = false}), {5, 4, 3});
  expect_refused(attention({.params = {.latent_v = 9}, .has_v = false}), "no V cache, and 9 of K's 8 elements as V");
  expect_refused(attention({.has_v = false}), "no V cache, and 0 of K's 8");
  expect_refused(attention({.params = {.latent_v = 5}}), "a V cache beside a V that is part of K");
}

TEST(AttentionRule, RefusesWhatDoesNotFit) {
  expect_refused(attention({.q = {7, 4, 3}}), "q has 7 elements, K has 8");
  expect_refused(attention({.q = {8, 3, 3}}), "3 query heads for 2 KV heads");
  expect_refused(attention({.q = {8, 0, 3}}), "0 query heads");
  expect_refused(attention({.q = {0, 4, 3}, .k = {0, 64, 2, 5}}), "heads are empty");
  expect_refused(attention({.v = {0, 64, 2, 5}}), "heads are empty");
  expect_refused(attention({.k = {8, 64, 0, 5}, .v = {6, 64, 0, 5}}), "4 query heads for 0 KV heads");
  expect_refused(attention({.k = {8, 32, 2, 5}}), "K [8, 32, 2, 5] is not a contiguous cache");
  expect_refused(attention({.v = {6, 64, 2, 4}}), "K and V caches differ");
  expect_refused(attention({.n_positions = 2}), "positions has 2 entries, want 3");
  expect_refused(attention({.n_slots = 4}), "slots has 4 entries, want 3");
  expect_refused(attention({.valid = {3, 2}}), "want blocks i32 and valid i64");
  expect_refused(attention({.blocks_type = DType::i64}), "want blocks i32 and valid i64");
  expect_refused(attention({.valid_type = DType::i32}), "want blocks i32 and valid i64");
  expect_refused(attention({.params = {.scale = kNaN}}), "scale");
  expect_refused(attention({.params = {.window = -1}}), "window -1");
  expect_refused(attention({.params = {.soft_cap = -1}}), "attention parameter -1");
  expect_refused(attention({.params = {.max_alibi = kNaN}}), "attention parameter");
  expect_refused(attention({.sinks = Shape{3}}), "sinks [3], want one per head, 4");
}

TEST(Rules, RefuseParametersOfAnotherOperation) {
  const TensorSpec x{DType::f32, contiguous_layout(DType::f32, {8, 64, 1, 1}).value()};
  const TensorSpec* operands[] = {&x, &x, &x, &x, &x, &x, &x};
  for (const auto& [op, n] : {std::pair{Op::scale, 1u},
                              {Op::rms_norm, 1u},
                              {Op::rope, 2u},
                              {Op::rope_table, 1u},
                              {Op::kv_store, 3u},
                              {Op::kv_load, 2u},
                              {Op::attention, 7u}})
    EXPECT_ERROR(infer(op, Operands(operands, n), NoParams{}), "parameters of another op");
}

TEST(Rules, AreTotalOverTheNumberOfOperands) {
  for (const Op op : {Op::add, Op::silu, Op::mul_mat, Op::get_rows, Op::cast, Op::swiglu})
    EXPECT_ERROR(infer(op, {}, NoParams{}), "operands");
}

TEST(Cost, CountsMultiplyAddsAndBytesOnce) {
  GraphBuilder b;
  const Value w = b.input("w", DType::f16, {8, 5});
  const Value x = f32(b, {8, 3});
  const Value y = b.mul_mat(w, x);
  const Graph graph = std::move(b).finish().value();
  EXPECT_EQ(cost(graph, y.id()).macs, 8 * 5 * 3);
  EXPECT_EQ(cost(graph, y.id()).bytes, 8 * 5 * 2 + 8 * 3 * 4 + 5 * 3 * 4);
  EXPECT_EQ(cost(graph, w.id()).bytes, 0);
}

TEST(Cost, SumSquaresReadsItsOperandOnce) {
  GraphBuilder b;
  const Value y = b.sum_squares(f32(b, {8, 3}));
  const Graph graph = std::move(b).finish().value();
  EXPECT_EQ(cost(graph, y.id()).macs, 8 * 3);
  EXPECT_EQ(cost(graph, y.id()).bytes, 8 * 3 * 4 + 8 * 4);
}

TEST(Cost, RowsThatAreMovedCountNotTheTableOrCache) {
  GraphBuilder b;
  const Value rows = b.get_rows(f32(b, {8, 1000}), i32(b, 3));
  const Value cache = b.input("c", DType::f16, {8, 64, 2, 100});
  const Value stored = b.kv_store(cache, f32(b, {8, 2, 3}), i32(b, 3), KvSide::k);
  const Value loaded = b.kv_load(cache, i32(b, 3), KvSide::k);
  const Graph graph = std::move(b).finish().value();
  EXPECT_EQ(cost(graph, rows.id()).bytes, 2 * 8 * 3 * 4);
  EXPECT_EQ(cost(graph, stored.id()).bytes, 2 * 8 * 2 * 3 * 4);
  EXPECT_EQ(cost(graph, loaded.id()).bytes, 2 * 8 * 2 * 3 * 2);
}

}  // namespace
}  // namespace tessera
