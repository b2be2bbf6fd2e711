// Residual streams: the formulas in double precision, in every setting, and what the kernels write.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cpu/kernels_testing.h"
#include "tests/cpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// --- stream_weights

struct StreamScene {
  StreamParams params;
  bool is_input = false;
  int64_t n_tokens = 7;
  std::vector<float> m, bias, scale;

  StreamScene(const StreamParams& p, bool input, int64_t tokens = 7) : params(p), is_input(input), n_tokens(tokens) {
    Rng rng(static_cast<uint64_t>(p.n_streams * 10 + tokens));
    m = random_values(rng, n() * n_tokens * kStrides, 3);
    bias = random_values(rng, n());
    scale = random_values(rng, n_scales(), 2);
  }

  int64_t n() const { return params.n_streams * (is_input ? 1 : params.n_streams + 2); }
  int64_t n_scales() const { return is_input ? 1 : 3; }
  NamedBytes inputs() const { return {{"m", bytes_of(m)}, {"bias", bytes_of(bias)}, {"scale", bytes_of(scale)}}; }

  /// Tokens are every third row of m.
  Graph graph() const {
    GraphBuilder b;
    const int64_t nb = 4 * n() * kStrides;
    const Value rows = b.view(b.input("m", DType::f32, {n(), n_tokens * kStrides}),
                              {.shape = {n(), n_tokens}, .nb = {4, nb, nb * n_tokens, nb * n_tokens}}, 0);
    b.output(
        b.stream_weights(rows, b.input("bias", DType::f32, {n()}), b.input("scale", DType::f32, {n_scales()}), params),
        "y");
    return std::move(b).finish().value();
  }

  double v(int64_t t, int64_t i) const {
    const int64_t part = i < params.n_streams ? 0 : i < 2 * params.n_streams ? 1 : 2;
    return double{m[static_cast<size_t>(t * kStrides * n() + i)]} * scale[static_cast<size_t>(part)] +
           bias[static_cast<size_t>(i)];
  }

  std::vector<double> reference() const {
    const int64_t n_streams = params.n_streams;
    const auto eps = double{params.eps};
    std::vector<double> y;
    for (int64_t t = 0; t < n_tokens; ++t) {
      for (int64_t i = 0; i < n_streams; ++i) y.push_back(sigmoid_of(v(t, i)) + eps);
      if (is_input) continue;
      for (int64_t i = 0; i < n_streams; ++i) y.push_back(2 * sigmoid_of(v(t, n_streams + i)));
      std::vector<double> c;
      for (int64_t i = 0; i < n_streams * n_streams; ++i) c.push_back(std::exp(v(t, 2 * n_streams + i)));
      const auto divide = [&](bool over_old, double added) {
        for (int64_t a = 0; a < n_streams; ++a) {
          const auto at = [&](int64_t i) -> double& {
            return c[static_cast<size_t>(over_old ? a + n_streams * i : i + n_streams * a)];
          };
          double sum = added;
          for (int64_t i = 0; i < n_streams; ++i) sum += at(i);
          for (int64_t i = 0; i < n_streams; ++i) at(i) /= sum;
        }
      };
      divide(false, 0);
      for (double& weight : c) weight += eps;
      divide(true, eps);
      for (int64_t i = 1; i < params.n_iterations; ++i) divide(false, eps), divide(true, eps);
      y.insert(y.end(), c.begin(), c.end());
    }
    return y;
  }

  void expect_reference() const {
    run_everywhere([&](const Device&) { return graph(); }, inputs(),
                   [&](const std::vector<float>& y) { expect_near(y, reference(), kRowTolerance); });
  }
};

TEST(StreamWeights, MatchTheFormula) {
  for (const int64_t n_streams : {1, 2, 4, 5, 15, 16})
    for (const int64_t n_iterations : {1, 2, 20})
      StreamScene({.n_streams = n_streams, .n_iterations = n_iterations, .eps = 0.01f}, false).expect_reference();
  StreamScene({.n_streams = 4, .n_iterations = 3}, false, 1).expect_reference();
  StreamScene({.n_streams = 4, .n_iterations = 3}, false, 0).expect_reference();
}

TEST(StreamWeights, MayBeOfAnInputOnly) {
  for (const int64_t n_streams : {1, 4, 16})
    for (const int64_t n_tokens : {0, 1, 40})
      StreamScene({.n_streams = n_streams, .eps = 0.25f}, true, n_tokens).expect_reference();
}

// The sum of e^v would be infinite.
TEST(StreamWeights, LargeProductsDoNotOverflow) {
  StreamScene scene({.n_streams = 4, .n_iterations = 2, .eps = 1e-6f}, false);
  scene.m.assign(scene.m.size(), 1e4f);
  scene.scale = {1, -1, 1};
  std::ranges::fill(scene.bias, 0.0f);
  for (Setting& setting : all_settings()) {
    ASSERT_OK_AND_ASSIGN(const auto y, setting.runner.run_y(scene.graph(), scene.inputs()));
    for (size_t i = 0; i < 24; ++i) ASSERT_NEAR(y[i], i < 4 ? 1.0 : i < 8 ? 0.0 : 0.25, 1e-5) << i;
  }
}

TEST(StreamWeights, OfATokenDoNotDependOnTheBatch) {
  const StreamScene all({.n_streams = 4, .n_iterations = 20, .eps = 1e-6f}, false);
  for (Setting& setting : all_settings()) {
    ASSERT_OK_AND_ASSIGN(const auto together, setting.runner.run_y(all.graph(), all.inputs()));
    for (int64_t t = 0; t < all.n_tokens; ++t) {
      StreamScene one = all;
      one.n_tokens = 1;
      one.m.assign(all.m.begin() + t * 24 * kStrides, all.m.begin() + (t + 1) * 24 * kStrides);
      ASSERT_OK_AND_ASSIGN(const auto alone, setting.runner.run_y(one.graph(), one.inputs()));
      ASSERT_TRUE(same_bytes(alone, {together.begin() + t * 24, together.begin() + (t + 1) * 24})) << setting.isa;
    }
  }
}

// --- join_streams, update_streams

struct StreamSums {
  int64_t n, n_streams, n_tokens;
  std::vector<float> x, y, weights;

  StreamSums(int64_t elements, int64_t streams, int64_t tokens) : n(elements), n_streams(streams), n_tokens(tokens) {
    Rng rng(static_cast<uint64_t>(n + n_streams));
    x = random_values(rng, n * n_streams * n_tokens);
    y = random_values(rng, n * n_tokens);
    weights = random_values(rng, n_weights() * n_tokens);
  }

  int64_t n_weights() const { return n_streams * (n_streams + 2); }
  NamedBytes inputs() const { return {{"x", bytes_of(x)}, {"y", bytes_of(y)}, {"w", bytes_of(weights)}}; }
  double weight(int64_t t, int64_t i) const { return weights[static_cast<size_t>(t * n_weights() + i)]; }
  double element(int64_t t, int64_t s, int64_t i) const { return x[static_cast<size_t>((t * n_streams + s) * n + i)]; }

  Graph graph(bool updates) const {
    GraphBuilder b;
    const Value streams = b.input("x", DType::f32, {n, n_streams, n_tokens});
    const Value w = b.input("w", DType::f32, {n_weights(), n_tokens}), out = b.input("y", DType::f32, {n, n_tokens});
    b.output(updates ? b.update_streams(streams, out, w) : b.join_streams(streams, w), "y");
    return std::move(b).finish().value();
  }

  std::vector<double> reference(bool updates) const {
    std::vector<double> out;
    for (int64_t t = 0; t < n_tokens; ++t)
      for (int64_t s = 0; s < (updates ? n_streams : 1); ++s)
        for (int64_t i = 0; i < n; ++i) {
          double sum = updates ? weight(t, n_streams + s) * y[static_cast<size_t>(t * n + i)] : 0;
          for (int64_t old = 0; old < n_streams; ++old)
            sum += element(t, old, i) * weight(t, updates ? n_streams * (2 + old) + s : old);
          out.push_back(sum);
        }
    return out;
  }
};

TEST(Streams, JoinAndUpdateMatchTheFormulas) {
  for (const int64_t n : {1, 17, 256, 259, 1000})
    for (const int64_t n_streams : {1, 3, 4, 16})
      for (const int64_t n_tokens : {0, 1, 5})
        for (const bool updates : {false, true}) {
          const StreamSums sums(n, n_streams, n_tokens);
          run_everywhere([&](const Device&) { return sums.graph(updates); }, sums.inputs(),
                         [&](const std::vector<float>& y) { expect_near(y, sums.reference(updates), 1e-5); });
        }
}

TEST(Streams, JoinTakesTheWeightsOfAnInput) {
  const StreamSums sums(100, 4, 3);
  std::vector<float> of_input;
  for (size_t t = 0; t < 3; ++t) of_input.insert(of_input.end(), &sums.weights[t * 24], &sums.weights[t * 24 + 4]);
  run_everywhere(
      [&](const Device&) {
        GraphBuilder b;
        b.output(b.join_streams(b.input("x", DType::f32, {100, 4, 3}), b.input("w", DType::f32, {4, 3})), "y");
        return std::move(b).finish().value();
      },
      {{"x", bytes_of(sums.x)}, {"w", bytes_of(of_input)}},
      [&](const std::vector<float>& y) { expect_near(y, sums.reference(false), 1e-5); });
}

TEST(Streams, MayBeViews) {
  const StreamSums sums(20, 4, 2);
  // Elements 3 to 12 of each stream.
  const auto narrow = [](GraphBuilder& b, Value x) {
    Layout layout = b.spec(x).layout;
    layout.shape[0] = 10;
    return b.view(x, layout, 12);
  };
  for (const bool updates : {false, true}) {
    std::vector<double> expected;
    const std::vector<double> whole = sums.reference(updates);
    for (size_t row = 0; row < whole.size(); row += 20)
      expected.insert(expected.end(), &whole[row + 3], &whole[row + 13]);
    run_everywhere(
        [&](const Device&) {
          GraphBuilder b;
          const Value x = narrow(b, b.input("x", DType::f32, {20, 4, 2})), w = b.input("w", DType::f32, {24, 2});
          const Value y = narrow(b, b.input("y", DType::f32, {20, 2}));
          b.output(updates ? b.update_streams(x, y, w) : b.join_streams(x, w), "y");
          return std::move(b).finish().value();
        },
        sums.inputs(), [&](const std::vector<float>& y) { expect_near(y, expected, 1e-5); });
  }
}

// --- kernels

TEST(StreamKernels, WriteOnlyTheirPart) {
  for (const cpu::Kernels* k : usable_kernels())
    for (const int64_t n : {1, 15, 16, 17, 33}) {
      const StreamSums sums(n, 4, 1);
      Guarded<float> joined(n), updated(4 * n);
      cpu::StreamsTask task{.x = sums.x.data(),
                            .x_stride = n,
                            .weights = sums.weights.data(),
                            .n_streams = 4,
                            .y = sums.y.data(),
                            .n = n,
                            .out = joined.data(),
                            .out_stride = n};
      k->streams->join(task);
      task.out = updated.data();
      k->streams->update(task);
      EXPECT_TRUE(joined.intact() && updated.intact()) << k->isa << ", " << n;
    }
}

TEST(StreamKernels, WriteOnlyTheirWeights) {
  for (const cpu::Kernels* k : usable_kernels())
    for (const int n_streams : {1, 4, 15, 16})
      for (const bool is_input : {false, true}) {
        const StreamScene scene({.n_streams = n_streams}, is_input, 1);
        Guarded<float> out(scene.n());
        k->streams->weights({.m = scene.m.data(),
                             .bias = scene.bias.data(),
                             .scale = scene.scale.data(),
                             .n_streams = n_streams,
                             .is_input = is_input,
                             .n_iterations = 3,
                             .eps = 0,
                             .out = out.data()});
        EXPECT_TRUE(out.intact()) << k->isa << ", " << n_streams;
      }
}

TEST(StreamKernels, VectorSetsGiveTheSameBits) {
  const StreamScene scene({.n_streams = 5, .n_iterations = 20, .eps = 1e-6f}, false);
  const StreamSums sums(77, 5, 2);
  NamedBytes first;
  for (Setting& setting : all_settings()) {
    if (setting.isa == "scalar") continue;
    ASSERT_OK_AND_ASSIGN(NamedBytes all, setting.runner.run(scene.graph(), scene.inputs()));
    for (const bool updates : {false, true}) {
      ASSERT_OK_AND_ASSIGN(const NamedBytes y, setting.runner.run(sums.graph(updates), sums.inputs()));
      all[updates ? "updated" : "joined"] = y.at("y");
    }
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << setting.isa;
  }
}

}  // namespace
}  // namespace tessera
