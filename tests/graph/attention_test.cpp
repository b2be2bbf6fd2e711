// The shape rule of attention with the paged cache, and the buckets of its relative bias.
#include <optional>

#include "tests/graph/rules_support.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

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
  std::optional<Shape> chosen{};
  DType chosen_type = DType::i64;
};

Build attention(const AttentionShapes& s) {
  return [=](GraphBuilder& b) {
    return b.paged_attention(f32(b, s.q), f16(b, s.k), s.has_v ? f16(b, s.v) : Value(), i32(b, s.n_positions),
                             i32(b, s.n_slots), b.input("blocks", s.blocks_type, s.blocks),
                             b.input("valid", s.valid_type, s.valid), s.sinks ? f32(b, *s.sinks) : Value(), s.params,
                             {}, s.chosen ? b.input("chosen", s.chosen_type, *s.chosen) : Value());
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

TEST(AttentionRule, ChosenKeysAreASetPerTokenOrPerKvHead) {
  expect_shape(attention({.chosen = Shape{4, 1, 3}}), {6, 4, 3});
  expect_shape(attention({.chosen = Shape{4, 2, 3}}), {6, 4, 3});
  expect_refused(attention({.chosen = Shape{4, 4, 3}}), "chosen keys [4, 4, 3], want i64 [4, 1 or 2, 3]");
  expect_refused(attention({.chosen = Shape{3, 1, 3}}), "chosen keys [3, 1, 3]");
  expect_refused(attention({.chosen = Shape{4, 1, 2}}), "chosen keys [4, 1, 2]");
  expect_refused(attention({.chosen = Shape{4, 1, 3}, .chosen_type = DType::i32}), "chosen keys [4, 1, 3], want i64");
}

struct ChoiceShapes {
  Shape q{8, 4, 3};
  Shape k{8, 64, 1, 5};
  std::optional<Shape> weights = Shape{4, 3};
  int64_t n_positions = 3;
  KeyChoiceParams params{};
};

Build choice(const ChoiceShapes& s) {
  return [=](GraphBuilder& b) {
    return b.choose_keys(f32(b, s.q), f16(b, s.k), s.weights ? f32(b, *s.weights) : Value(), i32(b, s.n_positions),
                         i32(b, 3), b.input("blocks", DType::i32, {4, 2}), b.input("valid", DType::i64, {4, 2}),
                         s.params);
  };
}

TEST(ChooseKeysRule, GivesBitsPerSetAndToken) {
  expect_shape(choice({}), {4, 1, 3}, DType::i64);
  expect_shape(choice({.weights = {}}), {4, 4, 3}, DType::i64);
}

TEST(ChooseKeysRule, RefusesWhatDoesNotFit) {
  expect_refused(choice({.q = {7, 4, 3}}), "q has 7 elements, K has 8");
  expect_refused(choice({.k = {8, 64, 2, 5}}), "keys of 2 heads, want one");
  expect_refused(choice({.weights = Shape{3, 3}}), "weights of heads [3, 3], want [4, 3]");
  expect_refused(choice({.weights = Shape{4, 2}}), "weights of heads [4, 2], want [4, 3]");
  expect_refused(choice({.n_positions = 2}), "positions has 2 entries, want 3");
  expect_refused(choice({.params = {.n_chosen = 0}}), "a choice of 0 units of 1 positions, 0 of them local");
  expect_refused(choice({.params = {.unit = 0}}), "a choice of 1 units of 0 positions");
  expect_refused(choice({.params = {.unit = (int64_t{1} << 32) + 1}}), "a choice of 1 units of 4294967297 positions");
  expect_refused(choice({.params = {.n_local = -1}}), "-1 of them local");
}

struct WindowShapes {
  std::optional<Shape> chosen{};
  DType chosen_type = DType::i64;
  KeyWindowParams params{.window = 8, .ratio = 4, .n_entry_blocks = 2};
};

Build window(const WindowShapes& s) {
  return [=](GraphBuilder& b) {
    return b.window_keys(s.chosen ? b.input("chosen", s.chosen_type, *s.chosen) : Value(), i32(b, 3),
                         b.input("blocks", DType::i32, {5, 2}), s.params);
  };
}

TEST(WindowKeysRule, GivesBitsPerToken) {
  expect_shape(window({}), {5, 1, 3}, DType::i64);
  expect_shape(window({.chosen = Shape{5, 1, 3}}), {5, 1, 3}, DType::i64);
  for (const int64_t n_entry_blocks : {0, 5})
    expect_shape(window({.params = {.n_entry_blocks = n_entry_blocks}}), {5, 1, 3}, DType::i64);
}

TEST(WindowKeysRule, RefusesWhatDoesNotFit) {
  expect_refused(window({.chosen = Shape{4, 1, 3}}), "chosen keys [4, 1, 3]");
  expect_refused(window({.chosen = Shape{5, 2, 3}}), "chosen keys [5, 2, 3]");
  expect_refused(window({.chosen = Shape{5, 1, 2}}), "chosen keys [5, 1, 2]");
  expect_refused(window({.chosen = Shape{5, 1, 3}, .chosen_type = DType::i32}), "chosen keys [5, 1, 3], want i64");
  expect_refused(window({.params = {.window = -1}}), "a window of -1, entries of 1 positions in 0 of 5 blocks");
  expect_refused(window({.params = {.window = (int64_t{1} << 32) + 1}}), "a window of 4294967297");
  expect_refused(window({.params = {.ratio = 0}}), "entries of 0 positions");
  expect_refused(window({.params = {.ratio = (int64_t{1} << 32) + 1}}), "entries of 4294967297 positions");
  expect_refused(window({.params = {.n_entry_blocks = -1}}), "-1 of 5 blocks");
  expect_refused(window({.params = {.n_entry_blocks = 6}}), "6 of 5 blocks");
  expect_refused([](auto& b) { return b.window_keys({}, f32(b, {3}), i32(b, Shape{5, 2}), {}); }, "positions is f32");
  expect_refused([](auto& b) { return b.window_keys({}, i32(b, 3), f32(b, {5, 2}), {}); }, "blocks is f32");
}

struct CompressionShapes {
  Shape bias{8, 4};
  Shape rows{8, 64, 1, 5}, gates{8, 64, 1, 5};
  DType rows_type = DType::f32, gates_type = DType::f32;
  int64_t n_positions = 3, n_slots = 3, n_cells = 3;
  Shape valid{4, 2};
  CompressionParams params{.ratio = 4};
};

Build compression(const CompressionShapes& s) {
  return [=](GraphBuilder& b) {
    return b.compress_rows(f32(b, s.bias), b.input("rows", s.rows_type, s.rows),
                           b.input("gates", s.gates_type, s.gates), i32(b, s.n_positions), i32(b, s.n_slots),
                           b.input("blocks", DType::i32, {4, 2}), b.input("valid", DType::i64, s.valid),
                           i32(b, s.n_cells), s.params);
  };
}

TEST(CompressRowsRule, GivesAnEntryPerToken) {
  expect_shape(compression({}), {8, 3});
  expect_shape(compression({.params = {.ratio = 4, .overlaps = true}}), {4, 3});
  expect_shape(compression({.n_positions = 0, .n_slots = 0, .n_cells = 0}), {8, 0});
}

TEST(CompressRowsRule, RefusesWhatDoesNotFit) {
  expect_refused(compression({.bias = {8, 5}}), "biases [8, 5], want [8, 4]");
  expect_refused(compression({.bias = {4, 4}}), "biases [4, 4], want [8, 4]");
  expect_refused(compression({.params = {.ratio = 0}}), "entries of 0 positions");
  expect_refused(compression({.params = {.ratio = (int64_t{1} << 32) + 1}}), "entries of 4294967297 positions");
  expect_refused(compression({.rows_type = DType::f16}), "want two equal f32 caches of one head");
  expect_refused(compression({.gates_type = DType::f16}), "want two equal f32 caches of one head");
  expect_refused(compression({.gates = {8, 64, 1, 4}}), "rows [8, 64, 1, 5] and gates [8, 64, 1, 4]");
  expect_refused(compression({.rows = {8, 64, 2, 5}, .gates = {8, 64, 2, 5}}), "caches of one head");
  expect_refused(compression({.rows = {8, 32, 1, 5}, .gates = {8, 32, 1, 5}}), "caches of one head");
  expect_refused(
      compression(
          {.bias = {7, 4}, .rows = {7, 64, 1, 5}, .gates = {7, 64, 1, 5}, .params = {.ratio = 4, .overlaps = true}}),
      "biases [7, 4], want [7, 4]");
  expect_refused(compression({.bias = {0, 4}, .rows = {0, 64, 1, 5}, .gates = {0, 64, 1, 5}}), "biases [0, 4]");
  expect_refused(compression({.n_positions = 2}), "positions has 2 entries, want 3");
  expect_refused(compression({.n_slots = 2}), "slots has 2 entries, want 3");
  expect_refused(compression({.n_cells = 2}), "positions has 3 entries, want 2");
  expect_refused(compression({.valid = {3, 2}}), "want blocks i32 and valid i64");
}

TEST(BiasBucket, SharesRowsAmongLongDistances) {
  // 32 rows, both sides: each of distances 0 to 7, then from these on.
  constexpr int64_t kFirstOfBucket[] = {8, 12, 16, 23, 32, 46, 64, 91};
  for (int64_t d = 0; d < 300; ++d) {
    int64_t bucket = std::min<int64_t>(d, 7);
    for (const int64_t first : kFirstOfBucket) bucket += d >= first ? 1 : 0;
    EXPECT_EQ(bias_bucket(-d, 32, false), bucket) << d;
    EXPECT_EQ(bias_bucket(d, 32, false), d == 0 ? 0 : 16 + bucket) << d;
  }
}

TEST(BiasBucket, OfCausalAttentionHasNoneForLaterKeys) {
  for (const int64_t d : {0, 1, 100}) EXPECT_EQ(bias_bucket(d, 32, true), 0);
  for (int64_t d = 0; d < 16; ++d) EXPECT_EQ(bias_bucket(-d, 32, true), d);
  EXPECT_EQ(bias_bucket(-16, 32, true), 16);
  EXPECT_EQ(bias_bucket(-32, 32, true), 21);  // 16 + floor(16 * ln 2 / ln 8)
  EXPECT_EQ(bias_bucket(-112, 32, true), 30);
  EXPECT_EQ(bias_bucket(-113, 32, true), 31);
  EXPECT_EQ(bias_bucket(-100000, 32, true), 31);
}

TEST(RelativeBiasRule, RefusesWhatDoesNotFit) {
  const auto refused = [](const Shape& bias, const char* why) {
    GraphBuilder b;
    const Shape cache{8, 64, 2, 3};
    b.paged_attention(b.input("q", DType::f32, {8, 4, 2}), b.input("k", DType::f32, cache),
                      b.input("v", DType::f32, cache), b.input("p", DType::i32, {2}), b.input("s", DType::i32, {2}),
                      b.input("b", DType::i32, {3}), b.input("m", DType::i64, {3}), {}, {},
                      b.input("bias", DType::f32, bias));
    EXPECT_ERROR(std::move(b).finish(), why);
  };
  refused({3, 32}, "relative bias [3, 32], want 4 heads and a multiple of 4 buckets");
  refused({4, 30}, "relative bias [4, 30], want 4 heads");
  refused({4, 0}, "relative bias [4, 0], want 4 heads");
  refused({4, 32, 2}, "relative bias [4, 32, 2], want 4 heads");
}

}  // namespace
}  // namespace tessera
