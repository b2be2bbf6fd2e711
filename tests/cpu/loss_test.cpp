// The loss and its gradient in graphs: large vocabularies, extreme logits, ignored targets.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

Graph loss_graph(int64_t n_vocab, int64_t n_tokens, bool is_gradient) {
  GraphBuilder b;
  const Value logits = b.input("logits", DType::f32, {n_vocab, n_tokens});
  const Value targets = b.input("targets", DType::i32, {n_tokens});
  const Value loss = b.cross_entropy(logits, targets);
  const Value d_loss = b.input("d_loss", DType::f32, {1, n_tokens});
  b.output(is_gradient ? b.cross_entropy_grad(logits, targets, d_loss) : loss, "y");
  return std::move(b).finish().value();
}

NamedBytes loss_inputs(const std::vector<float>& logits, const std::vector<int32_t>& targets) {
  return {{"logits", bytes_of(logits)},
          {"targets", bytes_of(targets)},
          {"d_loss", bytes_of(std::vector<float>(targets.size(), 0.5f))}};
}

double exact_loss(const float* x, int64_t n, int64_t target) {
  double others = 0;
  for (int64_t i = 0; i < n; ++i)
    if (i != target) others += std::exp(double{x[i]} - x[target]);
  return std::log1p(others);
}

TEST(CrossEntropy, KeepsItsDigitsOverALargeVocabulary) {
  constexpr int64_t kVocab = 150'001;
  Rng rng(7);
  const std::vector<float> logits = random_values(rng, 2 * kVocab, 12.0f);
  const std::vector<int32_t> targets{150'000, 77};
  run_everywhere([](const Device&) { return loss_graph(kVocab, 2, false); }, loss_inputs(logits, targets),
                 [&](const std::vector<float>& y) {
                   for (size_t t = 0; t < 2; ++t) {
                     const double want = exact_loss(logits.data() + t * kVocab, kVocab, targets[t]);
                     EXPECT_NEAR(y[t], want, 1e-6 * want);
                   }
                 });
}

// Losses far below the resolution of 1 - softmax in f32, and far beyond the underflow of exp().
TEST(CrossEntropy, OfTheNearlyCertainAndOfTheImpossible) {
  const std::vector<float> logits{30, 3, 1, 30, 3, 1, 0, 0, 0, 1000, 0, -1000};
  const std::vector<int32_t> targets{0, 2, 1, 2};
  run_everywhere([](const Device&) { return loss_graph(3, 4, false); }, loss_inputs(logits, targets),
                 [&](const std::vector<float>& y) {
                   for (size_t t = 0; t < 4; ++t) {
                     const double want = t == 3 ? 2000 : exact_loss(logits.data() + 3 * t, 3, targets[t]);
                     EXPECT_NEAR(y[t], want, 1e-6 * want) << "row " << t;
                   }
                 });
  run_everywhere([](const Device&) { return loss_graph(3, 4, true); }, loss_inputs(logits, targets),
                 [&](const std::vector<float>& y) {
                   const double share = std::exp(-27.0) + std::exp(-29.0);
                   EXPECT_NEAR(y[0], -0.5 * share / (1 + share), 1e-6 * share);
                   EXPECT_EQ(std::vector<float>(y.begin() + 9, y.end()), (std::vector<float>{0.5f, 0, -0.5f}));
                 });
}

TEST(CrossEntropy, ATargetOfMinusOneCountsForNothing) {
  const std::vector<float> logits(3 * 5, 2.0f);
  run_everywhere([](const Device&) { return loss_graph(5, 3, false); }, loss_inputs(logits, {1, -1, 4}),
                 [](const std::vector<float>& y) {
                   EXPECT_FLOAT_EQ(y[0], std::log(5.0f));
                   EXPECT_EQ(y[1], 0.0f);
                   EXPECT_FLOAT_EQ(y[2], std::log(5.0f));
                 });
  run_everywhere([](const Device&) { return loss_graph(5, 3, true); }, loss_inputs(logits, {1, -1, 4}),
                 [](const std::vector<float>& y) {
                   for (size_t i = 5; i < 10; ++i) EXPECT_EQ(y[i], 0.0f);
                   EXPECT_FLOAT_EQ(y[0], 0.1f);
                   EXPECT_FLOAT_EQ(y[1], -0.4f);
                 });
}

TEST(CrossEntropy, ATargetOutOfRangeFailsTheRun) {
  const GraphRunner runner;
  for (const bool is_gradient : {false, true})
    for (const int32_t bad : {-2, 5}) {
      const auto y = runner.run_y(loss_graph(5, 2, is_gradient), loss_inputs(std::vector<float>(10), {0, bad}));
      EXPECT_ERROR(y, "target " + std::to_string(bad) + ", want 0 to 4");
    }
}

}  // namespace
}  // namespace tessera
