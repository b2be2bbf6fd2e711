// The shape rules of residual streams.
#include "tests/graph/rules_support.h"
#include "tests/support/numbers.h"

namespace tessera {
namespace {

using namespace testing;

struct WeightShapes {
  Shape m{24, 3}, bias{24}, scale{3};
  StreamParams params{.n_streams = 4, .n_iterations = 20, .eps = 1e-6f};
};

Build stream_weights(const WeightShapes& s) {
  return [=](GraphBuilder& b) { return b.stream_weights(f32(b, s.m), f32(b, s.bias), f32(b, s.scale), s.params); };
}

TEST(StreamWeightsRule, GivesWeightsPerToken) {
  expect_shape(stream_weights({}), {24, 3});
  expect_shape(stream_weights({.m = {24, 0}}), {24, 0});
  expect_shape(stream_weights({.m = {4, 3}, .bias = {4}, .scale = {1}}), {4, 3});
  expect_shape(stream_weights({.m = {288, 2}, .bias = {288}, .params = {.n_streams = 16}}), {288, 2});
  expect_shape(
      [](auto& b) { return b.stream_weights(every_other_row(b, 24, 3), f32(b, {24}), f32(b, {3}), {.n_streams = 4}); },
      {24, 3});
}

TEST(StreamWeightsRule, RefusesWhatDoesNotFit) {
  expect_refused(stream_weights({.m = {23, 3}}), "products [23, 3] for 4 streams");
  expect_refused(stream_weights({.m = {24, 3, 2}}), "products [24, 3, 2] for 4 streams");
  expect_refused(stream_weights({.bias = {23}}), "biases [23] and scales [3], want [24] and [3]");
  expect_refused(stream_weights({.scale = {1}}), "biases [24] and scales [1], want [24] and [3]");
  expect_refused(stream_weights({.m = {4, 3}, .bias = {4}}), "biases [4] and scales [3], want [4] and [1]");
  expect_refused(stream_weights({.params = {.n_streams = 0}}), "0 streams, 1 iterations");
  expect_refused(stream_weights({.params = {.n_streams = 17}}), "17 streams");
  expect_refused(stream_weights({.params = {.n_streams = 4, .n_iterations = 0}}), "4 streams, 0 iterations");
  expect_refused(stream_weights({.params = {.n_streams = 4, .n_iterations = 1001}}), "1001 iterations");
  expect_refused(stream_weights({.params = {.n_streams = 4, .eps = -1}}), "epsilon -1");
  expect_refused(stream_weights({.params = {.n_streams = 4, .eps = kNaN}}), "epsilon nan");
  expect_refused(
      [](auto& b) {
        return b.stream_weights(f16(b, {24, 3}), f32(b, {24}), f32(b, {3}), {.n_streams = 4});
      },
      "products is f16");
}

Build join(const Shape& x, const Shape& weights) {
  return [=](GraphBuilder& b) { return b.join_streams(f32(b, x), f32(b, weights)); };
}

TEST(JoinStreamsRule, GivesOneVectorPerToken) {
  expect_shape(join({8, 4, 3}, {24, 3}), {8, 3});
  expect_shape(join({8, 4, 3}, {4, 3}), {8, 3});
  expect_shape(join({8, 4, 0}, {4, 0}), {8, 0});
  expect_refused(join({8, 4, 3}, {5, 3}), "weights [5, 3] for streams [8, 4, 3]");
  expect_refused(join({8, 4, 3}, {24, 2}), "weights [24, 2] for streams [8, 4, 3]");
  expect_refused(join({8, 17, 3}, {17, 3}), "streams [8, 17, 3], want at most 16");
  expect_refused(join({8, 0, 3}, {0, 3}), "streams [8, 0, 3]");
  expect_refused(join({8, 4, 3, 2}, {24, 3}), "streams [8, 4, 3, 2]");
  expect_refused([](auto& b) { return b.join_streams(f16(b, {8, 4, 3}), f32(b, {24, 3})); }, "streams is f16");
  expect_refused([](auto& b) { return b.join_streams(f32(b, {8, 4, 3}), f16(b, {24, 3})); }, "weights is f16");
}

Build update(const Shape& x, const Shape& y, const Shape& weights) {
  return [=](GraphBuilder& b) { return b.update_streams(f32(b, x), f32(b, y), f32(b, weights)); };
}

TEST(UpdateStreamsRule, GivesStreams) {
  expect_shape(update({8, 4, 3}, {8, 3}, {24, 3}), {8, 4, 3});
  expect_shape(update({8, 1, 3}, {8, 3}, {3, 3}), {8, 1, 3});
  expect_refused(update({8, 4, 3}, {8, 3}, {4, 3}), "weights [4, 3] for streams [8, 4, 3]");
  expect_refused(update({8, 4, 3}, {7, 3}, {24, 3}), "output [7, 3] for streams [8, 4, 3]");
  expect_refused(update({8, 4, 3}, {8, 2}, {24, 3}), "output [8, 2] for streams");
  expect_refused(
      [](auto& b) {
        return b.update_streams(f32(b, {8, 4, 3}), f16(b, {8, 3}), f32(b, {24, 3}));
      },
      "the block's output is f16");
}

}  // namespace
}  // namespace tessera
